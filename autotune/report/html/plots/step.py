"""Where the time of a sample goes, before and after."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from autotune.records import Measurement, undisturbed
from autotune.report.figures import percent, significant
from autotune.report.html.evidence import Evidence
from autotune.report.html.plots.figure import NAMES, Figure, lines, role

PARTS = {
    "wait": "waiting for data",
    "compute": "compute",
    "contention": "compute slowed by the loader",
    "rest": "not taken apart",
    "epoch": "start of an epoch",
}
PATTERNS = {"wait": "/", "compute": "", "contention": "x", "rest": ".", "epoch": "-"}


def draw(evidence: Evidence) -> Iterator[Figure]:
    found = {
        arm: parts
        for arm, config in evidence.arms()
        if (parts := time_parts(evidence.measurements(config))) is not None
    }
    if not found:
        return
    names = [NAMES[arm] for arm in found]
    traces = []
    for part, title in PARTS.items():
        values = [1e6 * parts[part] for parts in found.values()]
        if not any(values):
            continue
        totals = [1e6 * sum(parts.values()) for parts in found.values()]
        hover = [
            lines(name, f"{title}: {significant(value)} µs a sample, {percent(value / total)}")
            for name, value, total in zip(names, values, totals, strict=True)
        ]
        traces.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": title,
                "x": values,
                "y": names,
                "hovertext": hover,
                "hoverinfo": "text",
                "marker": {"color": role(part), "pattern": pattern(part)},
            }
        )
    yield Figure(
        name="step",
        title="Where the time goes",
        caption="Time a sample, from the search's own trials. Compute is measured on batches that are there already, "
        "with the loader idle; what neither that nor waiting explains is compute slowed by the loader.",
        traces=traces,
        layout={
            "barmode": "stack",
            "xaxis": {"title": {"text": "µs a sample"}},
            "yaxis": {"autorange": "reversed", "automargin": True, "type": "category"},
        },
        height=190 + 55 * len(found),
    )


def pattern(part: str) -> dict[str, object]:
    """Return what tells a part from the others without colour."""
    return {"shape": PATTERNS[part], "fillmode": "overlay", "solidity": 0.2, "size": 7, "fgcolor": role("card")}


def time_parts(found: Sequence[Measurement]) -> dict[str, float] | None:
    """Return seconds a sample by part: the mean over the runs that count; None where there is none."""
    runs = [_parts(item) for item in undisturbed(found)]
    return {part: sum(run[part] for run in runs) / len(runs) for part in PARTS} if runs else None


def _parts(found: Measurement) -> dict[str, float]:
    contention = found.contention_s
    split = found.compute_s is not None
    per_step = {
        "wait": found.wait_s,
        # a loader that slows nothing leaves noise behind, which may be below zero: then it is compute's
        "compute": min(found.compute_s or 0.0, found.step_s - found.wait_s),
        "contention": max(0.0, contention or 0.0),
        "rest": 0.0 if split else found.step_s - found.wait_s,
    }
    parts = {part: seconds / found.samples_per_step for part, seconds in per_step.items()}
    parts["epoch"] = found.epoch_overhead_s / found.samples_per_epoch if found.samples_per_epoch else 0.0
    return parts
