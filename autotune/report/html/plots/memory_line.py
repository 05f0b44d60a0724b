"""The memory model's line against the peaks that were measured, by batch size."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from autotune.report.evidence import BEST, Evidence
from autotune.report.html.plots.figure import Figure, beyond, curve, level, marker, points, role
from autotune.report.html.plots.tradeoff import NEAR, hover_of
from autotune.words.figures import GIB, memory, percent


def draw(evidence: Evidence) -> Iterator[Figure]:
    believed = evidence.explanation.memory if evidence.explanation else ()
    sizes = {row.config.value("batch_size") for row in evidence.rows if row.peak_bytes is not None}
    if len(believed) < 2 or not sizes:
        return
    assert evidence.explanation is not None
    limit = evidence.explanation.limit_bytes
    line = [item for item in believed if item.peak_bytes <= NEAR * limit]
    hover = [
        f"batch {item.batch_size}: {memory(item.peak_bytes)} believed, {percent(item.fits)} to fit" for item in line
    ]
    traces = [
        curve(
            [item.batch_size for item in line],
            [item.peak_bytes / GIB for item in line],
            BEST,
            name="model, options of the best",
            hovertext=hover,
            hoverinfo="text",
        )
    ]
    on_line = [item for item in believed if item.measured_bytes is not None]
    batches = {item.batch_size: item.measured_bytes for item in on_line}
    if on_line:
        told = [f"batch {item.batch_size}: {memory(item.measured_bytes or 0)} measured" for item in on_line]
        y = [(item.measured_bytes or 0) / GIB for item in on_line]
        traces.append(points(list(batches), y, told, name="measured, same options", marker=marker(BEST, size=11)))
    other = [row for row in evidence.rows if row.peak_bytes is not None and row.peak_bytes not in batches.values()]
    if other:
        x = [row.config.value("batch_size") for row in other]
        y = [(row.peak_bytes or 0) / GIB for row in other]
        mark = {"color": role("trial"), "size": 7}
        told = [hover_of(row, evidence) for row in other]
        traces.append(points(x, y, told, name="measured, other options", marker=mark))
    largest = max(row.peak_bytes or 0 for row in evidence.rows if row.peak_bytes is not None)
    near = limit <= NEAR * max([largest, *(item.peak_bytes for item in line)])
    layout: dict[str, Any] = {
        "xaxis": {"title": {"text": "batch size"}, "rangemode": "tozero"},
        "yaxis": {"title": {"text": "peak memory, GiB"}, "rangemode": "tozero"},
        **(level(limit / GIB, f"limit {memory(limit)}") if near else beyond(f"limit {memory(limit)} ↑")),
    }
    yield Figure(
        name="memory",
        title="Memory by batch size",
        caption="The line is the search's model of the peak, with the other options as in the best config.",
        traces=traces,
        layout=layout,
    )
