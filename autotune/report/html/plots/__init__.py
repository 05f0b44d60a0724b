"""One module a plot: each makes a figure from the evidence, or none where the run has nothing to draw."""

from __future__ import annotations

from collections.abc import Iterator

from autotune.report.evidence import Evidence
from autotune.report.html.plots import blocks, gains, memory_line, pairs, progress, step, tradeoff
from autotune.report.html.plots.figure import Figure

PLOTS = (pairs, tradeoff, gains, step, blocks, memory_line, progress)
"""in the order of the page"""


def figures(evidence: Evidence) -> Iterator[Figure]:
    """Yield the figures that there is something to draw for."""
    for plot in PLOTS:
        yield from plot.draw(evidence)
