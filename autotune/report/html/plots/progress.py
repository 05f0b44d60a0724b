"""The search as it went: each trial, and the best so far, over trials and over time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from autotune.report.evidence import BASELINE, Evidence
from autotune.report.html.plots.figure import Figure, Trace, curve, marker, points, role
from autotune.report.html.plots.tradeoff import hover_of
from autotune.report.rows import Row, rows_of

FEW = 12  # trials up to which each has its own tick
HIGHEST = 300  # trials up to which the best is looked up after each of them


def draw(evidence: Evidence) -> Iterator[Figure]:
    rows = evidence.single
    if len(rows) < 2 or not any(row.measured for row in rows):
        return
    records = {record.number: record for record in evidence.run.screening}
    began = min(record.started_at for record in records.values())
    minutes = [(records[row.trial].started_at + records[row.trial].wall_s - began) / 60 for row in rows]
    best = _best_so_far(evidence)
    whole = {"tickformat": "d", **({"dtick": 1} if len(rows) < FEW else {})}
    told = "The line is the best config so far, of several runs their mean."
    if not all(row.measured for row in rows):
        told += " Crosses are trials without figures."
    for name, title, axis, x in (
        ("progress-trials", "Search, trial by trial", "trial", [float(row.trial) for row in rows]),
        ("progress-time", "Search over time", "minutes", minutes),
    ):
        layout: dict[str, Any] = {
            "xaxis": {"title": {"text": axis}, **(whole if axis == "trial" else {})},
            "yaxis": {"title": {"text": "samples/s"}, "rangemode": "tozero"},
        }
        traces = [
            curve(x, best, "best", name="best so far", line={"shape": "hv"}, connectgaps=False),
            *_marks(evidence, rows, x),
        ]
        yield Figure(name=name, title=title, caption=told, traces=traces, layout=layout)


def _marks(evidence: Evidence, rows: list[Row], x: list[float]) -> Iterator[Trace]:
    groups = {
        "baseline": [at for at, row in enumerate(rows) if row.measured and not row.differs],
        "trial": [at for at, row in enumerate(rows) if row.measured and row.differs and row.fits is not False],
        "over the limit": [at for at, row in enumerate(rows) if row.measured and row.differs and row.fits is False],
        "no figure": [at for at, row in enumerate(rows) if not row.measured],
    }
    looks = {
        "baseline": marker(BASELINE),
        "trial": {"color": role("trial"), "size": 8},
        "over the limit": {"color": role("trial"), "symbol": "x", "size": 8},
        "no figure": {"color": role("limit"), "symbol": "x-thin-open", "size": 9, "line": {"width": 2}},
    }
    for name, places in groups.items():
        if places:
            hover = [hover_of(rows[at], evidence) for at in places]
            y = [rows[at].samples_per_s or 0.0 for at in places]
            yield points([x[at] for at in places], y, hover, name=name, marker=looks[name])


def _best_so_far(evidence: Evidence) -> list[float | None]:
    """Return after each trial the throughput of the first in rank, as the table would have had it then."""
    run = evidence.run
    records = sorted(run.screening, key=lambda record: record.number)
    step = 1 + len(records) // HIGHEST
    best: list[float | None] = []
    for count in range(1, len(records) + 1):
        if count % step and best and count < len(records):
            best.append(best[-1])
            continue
        seen = rows_of(records[:count], baseline=run.baseline, accelerator=run.accelerator, limits=run.info.limits)
        first = next((row for row in seen if row.rank == 1), None)
        best.append(None if first is None else first.samples_per_s)
    return best
