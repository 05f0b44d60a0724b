"""Throughput against peak memory, with the front that nothing beats and the memory limit."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from autotune.records import Outcome
from autotune.report.columns import OUTCOMES
from autotune.report.evidence import Evidence
from autotune.report.front import pareto_front
from autotune.report.html.plots.figure import (
    NAMES,
    Figure,
    Trace,
    beyond,
    curve,
    differs_lines,
    level,
    lines,
    marker,
    points,
    role,
)
from autotune.report.outcome import row_of, samples_per_s
from autotune.report.rows import Row
from autotune.words.figures import GIB, memory, percent

NEAR = 3.0  # a limit further away than so many times the largest peak would press all points to one side


def draw(evidence: Evidence) -> Iterator[Figure]:
    rows = [row for row in evidence.rows if row.measured and row.peak_bytes is not None]
    if not rows:
        return
    front = pareto_front(rows)
    traces = []
    if len(front) > 1:
        x, y = [_gib(row) for row in front], [row.samples_per_s for row in front]
        traces.append(curve(x, y, "ink", name="front", line={"shape": "hv", "width": 1.5}))
    special = {arm: row for arm, config in evidence.arms() if (row := row_of(rows, config)) is not None}
    groups: dict[str, list[Row]] = {"trial": [], "cut short": [], "over the limit": []}
    for row in rows:
        if row not in special.values():
            groups[_group(row)].append(row)
    symbols = {"trial": "circle", "cut short": "circle-open", "over the limit": "x"}
    for name, members in groups.items():
        if members:
            mark = {"color": role("trial"), "symbol": symbols[name], "size": 9}
            traces.append(_trace(evidence, members, name=name, marker=mark))
    for arm, row in special.items():
        traces.append(_trace(evidence, [row], name=NAMES[arm], marker=marker(arm)))
    limit = next((row.limit_bytes for row in rows if row.limit_bytes is not None), None)
    largest = max(row.peak_bytes or 0 for row in rows)
    near = limit is not None and limit <= NEAR * largest
    layout: dict[str, Any] = {
        "xaxis": {"title": {"text": "peak memory, GiB"}, "rangemode": "nonnegative"},
        "yaxis": {"title": {"text": "samples/s"}, "rangemode": "tozero"},
    }
    if limit is not None:
        told = f"limit {memory(limit)}"
        layout |= level(limit / GIB, told, vertical=True) if near else beyond(f"{told} →", vertical=True)
    failed = sum(1 for row in evidence.rows if not row.measured)
    yield Figure(
        name="tradeoff",
        title="Throughput against memory",
        caption="Each mark is a config as the search measured it, bars its uncertainty within the run; the line is the "
        "fastest that fits at each memory size." + (f" Not drawn: {failed} without figures." if failed else ""),
        traces=traces,
        layout=layout,
        height=420,
        wide=True,
    )


def _group(row: Row) -> str:
    if row.fits is False:
        return "over the limit"
    return "cut short" if row.outcome is Outcome.PRUNED else "trial"


def _trace(evidence: Evidence, rows: list[Row], **changes: Any) -> Trace:
    bars = [_half(row) for row in rows]
    below = [min(half, row.samples_per_s or 0.0) for half, row in zip(bars, rows, strict=True)]
    error = {"type": "data", "array": bars, "symmetric": False, "arrayminus": below}
    error |= {"thickness": 1, "width": 0, "color": changes["marker"]["color"]}
    hover = [hover_of(row, evidence) for row in rows]
    return points([_gib(row) for row in rows], [row.samples_per_s for row in rows], hover, error_y=error, **changes)


def hover_of(row: Row, evidence: Evidence) -> str:
    """Return a config with its figures, a line each."""
    runs = f"trials {', '.join(map(str, row.trials))}" if row.runs > 1 else f"trial {row.trial}"
    place = f", rank {row.rank}" if row.rank else ""
    known = row.uncertainty is not None and math.isfinite(row.uncertainty)
    within = f" (±{percent(row.uncertainty or 0.0)} within the run)" if known else ""
    peak = "" if row.peak_bytes is None else f"peak {memory(row.peak_bytes)}"
    figures = [f"{samples_per_s(row)} samples/s{within}", peak] if row.measured else [OUTCOMES[row.outcome]]
    return lines(f"{runs}{place}", *figures, row.reason, *differs_lines(row.config, evidence.run.baseline))


def _gib(row: Row) -> float:
    return (row.peak_bytes or 0) / GIB


def _half(row: Row) -> float:
    half = row.uncertainty or 0.0
    return (row.samples_per_s or 0.0) * half if math.isfinite(half) else 0.0
