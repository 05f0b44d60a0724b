"""The columns of the results table, by name: what they show, how they sort, and which go first when room is short."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from autotune.errors import UsageError
from autotune.records import Outcome
from autotune.report.rows import OVER_LIMIT, Row
from autotune.words.figures import GIB, percent, rounded, significant
from autotune.words.text import values_text

OUTCOMES = {
    Outcome.OK: "ok",
    Outcome.PRUNED: "cut short",
    Outcome.OUT_OF_MEMORY: "out of memory",
    Outcome.TIMEOUT: "timeout",
    Outcome.CRASHED: "crashed",
    Outcome.NON_FINITE: "loss not finite",
    Outcome.ERROR: "error",
    Outcome.UNSUPPORTED: "unsupported",
}
"""outcomes in words"""

Key = float | str | None


@dataclass(frozen=True, kw_only=True)
class Column:
    """One column: `cell` is its text, `key` its value for sorting (None: last)."""

    name: str
    title: str
    cell: Callable[[Row], str]
    key: Callable[[Row], Key]
    descending: bool = False
    """whether the largest value comes first"""
    importance: int
    """the least important go first where the terminal is narrow"""
    numeric: bool = True
    folds_to: int = 0
    """width from which on the text goes on in the next line; 0: it never does"""
    optional: bool = False
    """left out where all its cells are empty"""


def _number(value: float | None, half_width: float | None) -> str:
    return "" if value is None else rounded(value, value * (half_width or 0.0))


def _step_ms(row: Row) -> str:
    return "" if row.step_s is None else _number(1e3 * row.step_s, row.uncertainty)


def _uncertainty(row: Row) -> str:
    return "" if row.uncertainty is None else f"±{percent(row.uncertainty).removesuffix(' %')}"


def _data(row: Row) -> str:
    return "" if row.data_share is None else f"{100 * row.data_share:.0f}{'!' if row.input_bound else ''}"


def _outcome(row: Row) -> str:
    return "over limit" if row.measured and row.fits is False else OUTCOMES[row.outcome]


def differs_text(row: Row) -> str:
    """Return what differs from the baseline, as one line of text."""
    return values_text(row.differs) or row.label


COLUMNS = (
    Column(
        name="rank",
        title="rank",
        cell=lambda row: "-" if row.rank is None else str(row.rank),
        key=lambda row: row.rank,
        importance=100,
    ),
    Column(
        name="trial", title="trial", cell=lambda row: str(row.trial), key=lambda row: float(row.trial), importance=99
    ),
    Column(
        name="differs",
        title="differs from baseline",
        cell=differs_text,
        key=differs_text,
        importance=98,
        numeric=False,
        folds_to=20,
    ),
    Column(
        name="runs",
        title="runs",
        cell=lambda row: str(row.runs) if row.runs > 1 else "",
        key=lambda row: float(row.runs),
        descending=True,
        importance=80,
        optional=True,
    ),
    Column(
        name="samples_per_s",
        title="samples/s",
        cell=lambda row: _number(row.samples_per_s, row.uncertainty),
        key=lambda row: row.samples_per_s,
        descending=True,
        importance=97,
    ),
    Column(
        name="uncertainty",
        title="± %",
        cell=_uncertainty,
        key=lambda row: row.uncertainty,
        importance=95,
        optional=True,
    ),
    Column(
        name="tokens_per_s",
        title="tokens/s",
        cell=lambda row: _number(row.tokens_per_s, row.uncertainty),
        key=lambda row: row.tokens_per_s,
        descending=True,
        importance=60,
        optional=True,
    ),
    Column(name="step_ms", title="step ms", cell=_step_ms, key=lambda row: row.step_s, importance=65, optional=True),
    Column(
        name="data_share",
        title="data wait %",
        cell=_data,
        key=lambda row: row.data_share,
        descending=True,
        importance=55,
        optional=True,
    ),
    Column(
        name="peak_bytes",
        title="peak GiB",
        cell=lambda row: "" if row.peak_bytes is None else significant(row.peak_bytes / GIB),
        key=lambda row: row.peak_bytes,
        importance=90,
        optional=True,
    ),
    Column(
        name="compile_s",
        title="compile s",
        cell=lambda row: "" if row.compile_s is None else significant(row.compile_s, 2),
        key=lambda row: row.compile_s,
        importance=45,
        optional=True,
    ),
    Column(
        name="outcome",
        title="outcome",
        cell=_outcome,
        key=lambda row: row.outcome.value,
        importance=96,
        numeric=False,
        folds_to=7,
    ),
    Column(
        name="wall_s",
        title="took s",
        cell=lambda row: significant(row.wall_s, 2),
        key=lambda row: row.wall_s,
        importance=40,
    ),
    Column(
        name="reason",
        title="reason",
        cell=lambda row: "" if row.reason == OVER_LIMIT else row.reason,  # the outcome says it
        key=lambda row: row.reason or None,
        importance=50,
        numeric=False,
        folds_to=16,
        optional=True,
    ),
)
"""in the order in which people read them; the flags' letters come last, made by the table"""


def sort_rows(rows: Sequence[Row], by: str, columns: Sequence[Column] = COLUMNS) -> list[Row]:
    """Return the rows sorted by a column; those without a value come last, equals by rank and trial.

    Raises:
        UsageError: no such column; names the nearest one.
    """
    names = [column.name for column in columns]
    if by not in names:
        near = difflib.get_close_matches(by, names, n=1)
        hint = f"Did you mean {near[0]}?" if near else f"Columns: {', '.join(names)}"
        raise UsageError(f"cannot sort by {by}", hint=hint)
    column = next(column for column in columns if column.name == by)
    steady = sorted(rows, key=lambda row: (row.rank or math.inf, row.trial))
    known = [row for row in steady if column.key(row) is not None]
    unknown = [row for row in steady if column.key(row) is None]
    return sorted(known, key=lambda row: column.key(row), reverse=column.descending) + unknown  # type: ignore[arg-type,return-value]
