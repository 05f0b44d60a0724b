"""The measured blocks themselves, so that the noise is seen."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from autotune.config import Config
from autotune.report.figures import significant
from autotune.report.html.evidence import Evidence
from autotune.report.html.plots.figure import NAMES, Figure, Trace, lines, marker, points

GAP = 1.5  # blocks of room between two processes


def draw(evidence: Evidence) -> Iterator[Figure]:
    traces = [trace for arm, config in evidence.arms() if (trace := _trace(evidence, arm, config)) is not None]
    if not traces:
        return
    layout: dict[str, Any] = {
        "xaxis": {"title": {"text": "blocks, a gap where a new process starts"}, "showticklabels": False},
        "yaxis": {"title": {"text": "ms a sample"}, "rangemode": "tozero"},
    }
    yield Figure(
        name="blocks",
        title="Every measured block",
        caption="Times of the blocks of steps that the figures are made of, process after process, search first and "
        "then verification. Hollow: dropped as warm-up. Scatter within a group is noise within a run, steps between "
        "groups are what differs from process to process.",
        traces=traces,
        layout=layout,
    )


def _trace(evidence: Evidence, arm: str, config: Config) -> Trace | None:
    x: list[float] = []
    y: list[float] = []
    hover: list[str] = []
    symbols: list[str] = []
    shape = str(marker(arm)["symbol"])
    at = 0.0
    for record in [*evidence.records(config), *evidence.records(config, verification=True)]:
        found = record.measurement
        for index, block in enumerate(found.blocks if found else ()):
            assert found is not None
            if not block.samples:
                continue
            time_s = block.wall_s / block.samples
            x.append(at)
            y.append(1e3 * time_s)
            symbols.append(f"{shape}-open" if index < found.kept_from else shape)
            dropped = "dropped as warm-up" if index < found.kept_from else ""
            hover.append(
                lines(
                    f"{NAMES[arm]}, trial {record.number}, block {index + 1}",
                    f"{significant(1e3 * time_s)} ms a sample over {block.steps} steps",
                    dropped,
                )
            )
            at += 1
        at += GAP
    return points(x, y, hover, name=NAMES[arm], marker=marker(arm, symbol=symbols, size=6)) if x else None
