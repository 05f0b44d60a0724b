"""All trials as a table that sorts and filters: the columns of `autotune results --all`, by the same functions."""

from __future__ import annotations

import math

from autotune.records import TrialRecord
from autotune.report.columns import COLUMNS, OUTCOMES, Column
from autotune.report.evidence import Evidence
from autotune.report.flags import explain
from autotune.report.html.markup import Html, join, tag
from autotune.report.rows import Row
from autotune.report.table import footer, screening_line

KEPT_ON_PHONES = 90  # importance of columns that a narrow screen shows without scrolling the table


def trials_section(evidence: Evidence) -> Html:
    """Return the table with its controls, and below it how to read it."""
    rows = sorted(evidence.single, key=lambda row: (row.rank or math.inf, row.sample_s or math.inf, row.trial))
    if not rows:
        return tag("section", tag("h2", "All trials"), tag("p", "No trial was run."), id="trials")
    columns = [column for column in COLUMNS if not column.optional or any(column.cell(row) for row in rows)]
    flagged = any(row.flags for row in rows)
    records = {record.number: record for record in evidence.run.records}
    head = [_title(column, place) for place, column in enumerate(columns)]
    if flagged:
        head.append(tag("th", "flags", scope="col", class_="minor"))
    body = [_row(evidence, row, columns, records[row.trial], flagged) for row in rows]
    shown = tag("table", tag("thead", tag("tr", *head)), tag("tbody", *body), id="trials-table")
    return tag(
        "section",
        tag("h2", "All trials"),
        tag("p", screening_line(evidence.rows, evidence.noise), ". A run a line; rank is of its config."),
        _controls(rows),
        tag("div", shown, class_="scroll", tabindex="0"),
        tag("p", "", id="trials-count", class_="muted", aria_live="polite"),
        *(tag("p", line, class_="muted") for line in footer(evidence.run, rows, [column.name for column in columns])),
        id="trials",
    )


def _controls(rows: list[Row]) -> Html:
    kinds = list(dict.fromkeys(_outcome(row) for row in rows))
    choices = [tag("option", "all outcomes", value="")] + [tag("option", kind, value=kind) for kind in kinds]
    field = tag("input", type="search", id="filter-text", placeholder="batch_size=128, noisy", autocomplete="off")
    chosen = tag("select", *choices, id="filter-outcome")
    return tag("div", tag("label", "Filter ", field), tag("label", "Outcome ", chosen), class_="controls")


def _title(column: Column, place: int) -> Html:
    button = tag("button", column.title, type="button", class_="sort", data_column=place)
    first = "descending" if column.descending else "ascending"
    now = "ascending" if column.name == "rank" else None  # as they stand
    return tag("th", button, scope="col", class_=_class(column), data_first=first, data_name=column.name, aria_sort=now)


def _row(evidence: Evidence, row: Row, columns: list[Column], record: TrialRecord, flagged: bool) -> Html:
    cells = []
    for column in columns:
        key = column.key(row)
        told = key if isinstance(key, str) else None if key is None or not math.isfinite(key) else repr(float(key))
        text = _reason(row, record) if column.name == "reason" else column.cell(row)
        cells.append(tag("td", text, class_=_class(column), data_key=told))
    if flagged:
        flags = [tag("abbr", flag, title=explain(flag)) for flag in row.flags]
        cells.append(tag("td", *(part for flag in flags for part in (flag, " ")), class_="minor"))
    dim = not row.measured or row.fits is False
    return tag("tr", *cells, data_outcome=_outcome(row), class_="dim" if dim else "first" if row.rank == 1 else None)


def _outcome(row: Row) -> str:
    """Return the outcome as the table's own column says it."""
    return next(column for column in COLUMNS if column.name == "outcome").cell(row) or OUTCOMES[row.outcome]


def _reason(row: Row, record: TrialRecord) -> Html:
    """Return why there is no figure, with the message and the user's own traceback to unfold."""
    failure = record.failure
    told = [text.rstrip() for text in (failure.message, failure.traceback) if text.strip()] if failure else []
    reason = next(column for column in COLUMNS if column.name == "reason").cell(row)
    if not told:
        return join(reason)
    return tag("details", tag("summary", reason or "why"), *(tag("pre", text) for text in told))


def _class(column: Column) -> str:
    names = [name for name, fits in (("number", column.numeric), ("minor", column.importance < KEPT_ON_PHONES)) if fits]
    return " ".join(names) or f"column-{column.name.replace('_', '-')}"
