"""A figure as data for Plotly, and the marks that mean the same in every plot.

Colours are named by role; the page gives each role a colour for light and for dark, from Okabe and Ito's palette,
and every role has a shape of its own besides.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from autotune.config import Config
from autotune.report.evidence import BASELINE, BEST, SAME_BATCH
from autotune.report.html.markup import escape
from autotune.report.rows import differs_from
from autotune.words.text import value_text

Trace = dict[str, Any]

NAMES = {BASELINE: "baseline", BEST: "best", SAME_BATCH: "best at the same batch"}
SYMBOLS = {BASELINE: "diamond", BEST: "star", SAME_BATCH: "triangle-up"}


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One plot. Colours in it are roles: "role:best"; all text of users in it is escaped."""

    name: str
    title: str
    caption: str
    """how to read it"""
    traces: list[Trace]
    layout: dict[str, Any]
    height: int = 340
    wide: bool = False
    """whether it takes the whole width of the page"""

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "traces": self.traces, "layout": {**self.layout, "height": self.height}}


def role(name: str) -> str:
    return f"role:{name}"


def marker(arm: str, **changes: Any) -> dict[str, Any]:
    """Return the mark of the baseline or of an answer."""
    return {"color": role(arm), "symbol": SYMBOLS[arm], "size": 10 if arm == BASELINE else 13, **changes}


def points(x: list[Any], y: list[Any], hover: list[str], **changes: Any) -> Trace:
    """Return marks that tell `hover` (from `lines`) when pointed at."""
    return {
        "type": "scatter",
        "mode": "markers",
        "x": x,
        "y": y,
        "hovertext": hover,
        "hoverinfo": "text",
        **changes,
    }


def curve(x: list[Any], y: list[Any], color: str, **changes: Any) -> Trace:
    """Return a line that says nothing of its own."""
    line = {"color": role(color), "width": 2, **changes.pop("line", {})}
    return {"type": "scatter", "mode": "lines", "x": x, "y": y, "line": line, "hoverinfo": "skip", **changes}


def lines(*told: str) -> str:
    """Return the lines of a hover text; Plotly reads a little HTML there, so that all of it is escaped."""
    return "<br>".join(escape(line) for line in told if line)


def differs_lines(config: Config, baseline: Config) -> list[str]:
    """Return what a config changes, an option a line."""
    found = differs_from(config, baseline)
    return [f"{name} = {value_text(value)}" for name, value in found.items()] or ["the baseline"]


def level(value: float, text: str, *, vertical: bool = False) -> dict[str, list[dict[str, Any]]]:
    """Return layout parts that draw a limit across the plot and name it."""
    across, along = ("y", "x") if vertical else ("x", "y")
    shape = {
        "type": "line",
        f"{across}ref": "paper",
        f"{across}0": 0,
        f"{across}1": 1,
        f"{along}0": value,
        f"{along}1": value,
        "line": {"color": role("limit"), "width": 2, "dash": "dash"},
    }
    label = {
        f"{across}ref": "paper",
        f"{across}": 1 if vertical else 0,
        f"{along}": value,
        "text": str(escape(text)),
        "showarrow": False,
        "xanchor": "right" if vertical else "left",
        "yanchor": "top" if vertical else "bottom",
        "font": {"color": role("limit"), "size": 12},
    }
    return {"shapes": [shape], "annotations": [label]}


def beyond(text: str, *, vertical: bool = False) -> dict[str, list[dict[str, Any]]]:
    """Return layout parts that name a limit which lies outside the plot, at the side where it lies."""
    place = {"x": 1, "y": 1, "xanchor": "right"} if vertical else {"x": 0, "y": 1, "xanchor": "left"}
    font = {"color": role("limit"), "size": 12}
    label = {"xref": "paper", "yref": "paper", "yanchor": "top", **place, "text": str(escape(text)), "font": font}
    return {"annotations": [{**label, "showarrow": False}]}
