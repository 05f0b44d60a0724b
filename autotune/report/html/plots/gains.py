"""What each option of the answer gives, all else equal: measured with its interval, or believed by the models."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from autotune.report.evidence import BEST, Answer, Evidence
from autotune.report.html.plots.figure import Figure, Trace, lines, marker, points, role
from autotune.report.outcome import changes
from autotune.search.verification.wording import contribution
from autotune.words.text import value_text

NAME_WIDTH, NAME_LINES = 26, 3  # of an axis: a value may name many modules, and the plot needs room, too


@dataclass(frozen=True, kw_only=True)
class Gain:
    """Time without an option's new value over time with it."""

    name: str
    """option and value"""
    ratio: float
    lower: float
    upper: float
    words: str
    measured: bool
    """False: a belief of the models"""


def draw(evidence: Evidence) -> Iterator[Figure]:
    for answer in evidence.answers:
        found = gains(evidence, answer)
        if found:
            yield _figure(answer, found)


def gains(evidence: Evidence, answer: Answer) -> list[Gain]:
    """Return what is known of the options that the answer changes; those that were taken back are among them."""
    found = []
    for item in answer.attribution.contributions if answer.attribution else ():
        if item.comparison is not None and not item.reason:
            shown = item.comparison
            figures = {"ratio": shown.speedup, "lower": shown.lower, "upper": shown.upper}
            name = f"{item.option} = {value_text(item.value)}"
            found.append(Gain(name=name, **figures, words=contribution(item), measured=True))
    settled = {gain.name.partition(" = ")[0] for gain in found}
    for change in changes(answer.config, evidence.run.baseline):
        belief = evidence.belief(answer, change.option)
        if belief is None or change.option in settled:
            continue
        low, high = (belief.ratio * math.exp(sign * 2 * belief.spread) for sign in (-1, 1))
        name = f"{change.option} = {change.after}"
        words = f"{name}: believed, not measured alone"
        found.append(Gain(name=name, ratio=belief.ratio, lower=low, upper=high, words=words, measured=False))
    return found


def _figure(answer: Answer, found: list[Gain]) -> Figure:
    traces = []
    for measured in (True, False):
        group = [gain for gain in found if gain.measured is measured]
        if group:
            traces.append(_trace(answer, group, measured))
    told = []
    if any(gain.measured for gain in found):
        told.append("Measured: the winner against itself with this one option back, interleaved; 95 % intervals.")
    if not all(gain.measured for gain in found):
        told.append("Hollow: what the search's models believe, with about 95 % of their belief; not a measurement.")
    of = "" if answer.role == BEST else ": best at the same batch"
    height = 120 + 48 * len(found)
    # room for the names: Plotly would take it from the plot itself on a phone
    layout: dict[str, Any] = {
        "xaxis": {"title": {"text": "times as slow without it"}},
        "yaxis": {"autorange": "reversed", "automargin": True, "type": "category"},
        "shapes": [
            {
                "type": "line",
                "x0": 1,
                "x1": 1,
                "yref": "paper",
                "y0": 0,
                "y1": 1,
                "line": {"color": role("muted"), "dash": "dot"},
            }
        ],
    }
    return Figure(
        name=f"gains-{answer.role.replace('_', '-')}",
        title=f"What each option gives{of}",
        caption=" ".join(told),
        traces=traces,
        layout=layout,
        height=max(240, height),
    )


def _trace(answer: Answer, group: list[Gain], measured: bool) -> Trace:
    symbol = "square" if measured else "circle-open"
    return points(
        [gain.ratio for gain in group],
        [lines(*textwrap.wrap(gain.name, NAME_WIDTH, max_lines=NAME_LINES, placeholder=" ...")) for gain in group],
        [lines(gain.words, f"interval {gain.lower:.3f} to {gain.upper:.3f}") for gain in group],
        name="measured" if measured else "believed",
        marker=marker(answer.role, symbol=symbol, size=11),
        error_x={
            "type": "data",
            "symmetric": False,
            "array": [gain.upper - gain.ratio for gain in group],
            "arrayminus": [gain.ratio - gain.lower for gain in group],
            "color": role(answer.role),
            "thickness": 2,
        },
    )
