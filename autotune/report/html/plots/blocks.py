"""The measured blocks themselves, so that the noise is seen."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from autotune.config import Config
from autotune.report.evidence import Evidence
from autotune.report.html.plots.figure import NAMES, Figure, Trace, marker, points
from autotune.words.figures import significant

GAP = 1.5  # blocks of room between two processes


def draw(evidence: Evidence) -> Iterator[Figure]:
    traces = [trace for arm, config in evidence.arms() for trace in _traces(evidence, arm, config)]
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


def _traces(evidence: Evidence, arm: str, config: Config) -> Iterator[Trace]:
    kept: list[tuple[float, float, str]] = []
    dropped: list[tuple[float, float, str]] = []
    at = 0.0
    for record in [*evidence.records(config), *evidence.records(config, verification=True)]:
        found = record.measurement
        assert found is not None
        for index, block in enumerate(found.blocks):
            if not block.samples:
                continue
            time_ms = 1e3 * block.wall_s / block.samples
            warm = index >= found.kept_from
            told = f"trial {record.number}, block {index + 1}: {significant(time_ms)} ms"
            (kept if warm else dropped).append((at, float(f"{time_ms:.4g}"), told))
            at += 1
        at += GAP
    shape = str(marker(arm)["symbol"])
    for group, symbol in ((kept, shape), (dropped, f"{shape}-open")):
        if group:
            x, y, hover = (list(column) for column in zip(*group, strict=True))
            mark = marker(arm, symbol=symbol, size=6)
            yield points(x, y, hover, name=NAMES[arm], marker=mark, showlegend=group is kept)
