"""The page as one file: text, tables, figures, style and scripts together."""

from __future__ import annotations

import base64
import hashlib
from importlib import resources
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

from autotune.report.evidence import Evidence, gather
from autotune.report.html.background import background
from autotune.report.html.headline import headline
from autotune.report.html.markup import Html, data_block, escape, join, tag
from autotune.report.html.plots import figures
from autotune.report.html.plots.figure import Figure
from autotune.report.html.trials import trials_section
from autotune.report.run import Run, machine_line
from autotune.trials.folder import write_atomically

if TYPE_CHECKING:
    from autotune.search.explain import Explanation

HERE = resources.files("autotune.report.html")
PLOTLY = "vendor/plotly-basic.min.js"


def write_page(run: Run, explanation: Explanation | None = None, path: Path | None = None) -> Path:
    """Write the page of a run, to report.html in its folder unless `path` says otherwise; return where it is.

    Args:
        explanation: what the search's models believe; None: nothing is said of it.

    Raises:
        RunFolderError: a file of the run is damaged, or the page cannot be written.
    """
    path = path or run.folder.report
    write_atomically(path, page(gather(run, explanation)))
    return path


def page(evidence: Evidence) -> str:
    """Return the page's text."""
    drawn = list(figures(evidence))
    scripts = {"plotly": _text(PLOTLY) if drawn else "", "script": _text("page.js")}
    name = Path(evidence.run.info.source.script).name or evidence.run.folder.path.name
    return Template(_text("page.html")).substitute(
        policy=_policy(list(scripts.values())),
        title=escape(f"{name}: autotune"),
        name=escape(name),
        machine=escape(machine_line(evidence.run.info)),
        headline=headline(evidence),
        figures=tag("div", *map(_frame, drawn), class_="figures") if drawn else "",
        trials=trials_section(evidence),
        background=background(evidence),
        data=data_block("figures", [figure.to_dict() for figure in drawn]),
        style=_text("page.css"),
        **scripts,
    )


def _frame(figure: Figure) -> Html:
    """Return the place that the page's script draws a figure into."""
    caption = tag("figcaption", join(tag("h2", figure.title), tag("p", figure.caption)))
    plot = tag("div", class_="plot", id=f"plot-{figure.name}", role="img", aria_label=figure.title)
    return tag("figure", caption, plot, class_="wide" if figure.wide else None)


def _policy(scripts: list[str]) -> str:
    """Return the Content-Security-Policy: nothing is loaded, only these scripts run.

    Styles inside the file are allowed as a whole, since Plotly sets them on what it draws.
    """
    digests = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts]
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    inline = "style-src 'unsafe-inline'; img-src data:"
    return f"default-src 'none'; script-src {allowed}; {inline}; base-uri 'none'; form-action 'none'"


def _text(name: str) -> str:
    return HERE.joinpath(name).read_text(encoding="utf-8")
