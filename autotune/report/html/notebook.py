"""The outcome of a search as a piece of HTML for a notebook: no script, no style of its own."""

from __future__ import annotations

from autotune.report.evidence import Evidence
from autotune.report.html.headline import TITLES, gives_html
from autotune.report.html.markup import Html, join, table, tag
from autotune.report.outcome import before_and_after, changes, nothing_measured
from autotune.report.table import THROUGHPUT_ONLY, screening_line


def outcome_html(evidence: Evidence) -> Html:
    """Return verdict, options and figures of each answer."""
    if not evidence.answers:
        return tag("p", nothing_measured(evidence.rows))
    parts = []
    for answer in evidence.answers:
        parts.append(tag("p", tag("strong", f"{TITLES[answer.role]}: {answer.sentence or 'not verified'}")))
        if checked := evidence.numerics(answer):
            parts.append(tag("p", checked))
        changed = changes(answer.config, evidence.run.baseline)
        options = [
            [item.option, item.before, item.after, gives_html(evidence, answer, item.option)] for item in changed
        ]
        head = ["option", "before", "after", "what it alone gave"]
        parts.append(table(head, options) if options else tag("p", evidence.why_unchanged))
        before, after = evidence.baseline_row, evidence.row(answer)
        if after is not None:
            parts.append(tag("p", screening_line([row for row in (before, after) if row], evidence.noise)))
            parts.append(table(["", "before", "after"], [list(cells) for cells in before_and_after(before, after)]))
    told = f"{THROUGHPUT_ONLY} All of it: {evidence.run.folder.report}"
    return join(*parts, tag("p", told))
