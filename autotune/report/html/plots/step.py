"""Where the time of a sample goes, before and after."""

from __future__ import annotations

from collections.abc import Iterator

from autotune.report.evidence import Evidence
from autotune.report.html.plots.figure import NAMES, Figure, lines, role
from autotune.report.parts import PARTS, time_parts
from autotune.words.figures import percent, significant

PATTERNS = {"wait": "/", "compute": "", "contention": "x", "disturbance": "+", "rest": ".", "epoch": "-"}


def draw(evidence: Evidence) -> Iterator[Figure]:
    found = {
        arm: parts
        for arm, config in evidence.arms()
        if (parts := time_parts(evidence.measurements(config), config)) is not None
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
        "with the loader idle; what neither that nor waiting explains is compute slowed by the loader, "
        "or a disturbance where no worker loads.",
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
