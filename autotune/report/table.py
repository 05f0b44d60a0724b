"""The results table in the terminal: as many columns as fit, the flags in words below, and what was not measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table

from autotune.drift import drifts
from autotune.report.columns import COLUMNS, OUTCOMES, Column
from autotune.report.flags import explain, letters
from autotune.report.rows import Row, rows_of_run, screening_noise
from autotune.report.run import Run, machine_line
from autotune.report.scatter import scatter
from autotune.report.selection import EVERYTHING, Selection
from autotune.words.figures import memory, percent
from autotune.words.text import clean, plain

MOST_WORD = 24  # a longer word of a folding column is cut in two
GAP = 2  # between two columns
FEWEST_COLUMNS = 4  # rank, trial, what differs, samples/s: what folds is squeezed before one of these goes
NARROWEST = 8  # to which a folding column is squeezed: no number is longer
ALWAYS = frozenset({"rank", "samples_per_s"})
"""columns that are kept however narrow the terminal is"""
FLAGS = "flags"
THROUGHPUT_ONLY = "Throughput only: a changed batch size or precision may change convergence."
NOT_MEASURED = "Not measured: loss after training, validation, checkpoints."


def print_results(console: Console, run: Run, selection: Selection = EVERYTHING) -> None:
    """Print the results of a search: a row a config that was measured, or as the selection says.

    Raises:
        UsageError: no column of that name, or nothing has the values asked for.
    """
    everything = selection.rows(run)
    rows = everything if selection.every else [row for row in everything if row.measured]
    nothing = "No config was measured."
    if selection.pareto:
        measured = replace(selection, pareto=False, sort=None).rows(run)
        if any(row.measured for row in measured):
            nothing = "None of the configs measured is within the limits."
        for line in scatter(measured, rows, console.width, ascii_only=console.options.ascii_only):
            console.print(plain(line))
        console.print()
    noise = screening_noise(rows_of_run(run))
    console.print(plain(screening_line(rows, noise), "bold"))
    for drift in drifts(run.records):
        console.print(plain(drift.sentence(), "bold yellow"))
    if rows:
        found = letters(flag for row in rows for flag in row.flags)
        widths = fitting_columns(rows, console.width, flag_letters=found)
        console.print(results_table(rows, widths, flag_letters=found))
        if FLAGS in widths:
            console.print(_legend(found))
    else:
        widths = {}
        console.print(plain(nothing))
    for line in (*_counts(everything, rows), *footer(run, rows, widths)):
        console.print(plain(line, "dim"))


def screening_line(rows: Sequence[Row], noise: float | None) -> str:
    """Return the heading that every table of search results has: what its figures are not."""
    runs = "single run each" + (", repeats averaged" if any(row.runs > 1 for row in rows) else "")
    comparable = "" if noise is None else f", not comparable across rows within ±{percent(noise)}"
    return f"Screening, {runs}{comparable}"


def fitting_columns(
    rows: Sequence[Row], width: int, *, columns: Sequence[Column] = COLUMNS, flag_letters: Mapping[str, str]
) -> dict[str, int]:
    """Return the most important columns that `width` has room for, and how wide each is, by name; the flags last.

    A number is shown whole or not at all: cut off, it would be another one.
    """
    shown = [column for column in columns if not column.optional or any(column.cell(row) for row in rows)]
    flags = max(len(FLAGS), *(len(row.flags) for row in rows)) if flag_letters else 0
    room = width - (GAP + flags if flags else 0)

    def too_wide(least: Callable[[Column, Sequence[Row]], int]) -> bool:
        return sum(least(column, rows) + GAP for column in shown) - GAP > room

    while len(shown) > FEWEST_COLUMNS and too_wide(_least):
        shown.remove(min(shown, key=lambda column: column.importance))
    least = _narrowest if too_wide(_least) else _least
    while too_wide(least) and (others := [column for column in shown if column.name not in ALWAYS]):
        shown.remove(min(others, key=lambda column: column.importance))
    if too_wide(least):
        flags, room = 0, width
    widths = {column.name: least(column, rows) for column in shown}
    spare = room - sum(widths.values()) - GAP * (len(shown) - 1)
    for column in sorted(
        shown, key=lambda column: _longest(column, rows)
    ):  # the rest goes to what folds, short ones first
        more = min(max(0, spare), _longest(column, rows) - widths[column.name])
        widths[column.name] += more
        spare -= more
    return widths | ({FLAGS: flags} if flags else {})


def _least(column: Column, rows: Sequence[Row]) -> int:
    """Return the least width at which a column can be read."""
    longest = _longest(column, rows)
    if not column.folds_to or longest <= column.folds_to:
        return longest
    return max(column.folds_to, min(_longest_word(column, rows), MOST_WORD))


def _narrowest(column: Column, rows: Sequence[Row]) -> int:
    """Return the least width at which no number of a column is cut in two."""
    least = _least(column, rows)
    return min(least, NARROWEST) if column.folds_to else least


def _longest_word(column: Column, rows: Sequence[Row]) -> int:
    return max(cell_len(word) for text in _texts(column, rows) for word in text.split())


def _longest(column: Column, rows: Sequence[Row]) -> int:
    return max(cell_len(text) for text in _texts(column, rows))


def _texts(column: Column, rows: Sequence[Row]) -> list[str]:
    return [column.title, *(clean(column.cell(row)) for row in rows)]


def results_table(
    rows: Sequence[Row],
    widths: Mapping[str, int],
    *,
    columns: Sequence[Column] = COLUMNS,
    flag_letters: Mapping[str, str],
) -> Table:
    """Return the rows with the columns that `widths` names, and the letters of their flags last."""
    shown = [column for column in columns if column.name in widths]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    for column in shown:
        table.add_column(
            column.title,
            justify="right" if column.numeric else "left",
            no_wrap=not column.folds_to,
            overflow="fold",
            width=widths[column.name],
        )
    if FLAGS in widths:
        table.add_column(FLAGS, no_wrap=True, width=widths[FLAGS])
    cut = {column.name for column in shown if column.folds_to and widths[column.name] < _longest_word(column, rows)}
    for row in rows:
        # "num_workers=16" goes on after the sign, or a new line might begin within the number
        cells = [plain(column.cell(row).replace("=", "= " if column.name in cut else "=")) for column in shown]
        if FLAGS in widths:
            cells.append(plain("".join(flag_letters[flag] for flag in row.flags), "yellow"))
        table.add_row(*cells, style=_style(row))
    return table


def _style(row: Row) -> str:
    if not row.measured or row.fits is False:
        return "dim"
    return "bold" if row.rank == 1 else ""


def _counts(everything: Sequence[Row], shown: Sequence[Row]) -> list[str]:
    """Return the line that counts what the table leaves out, by outcome."""
    hidden = Counter(OUTCOMES[row.outcome] for row in everything if row not in shown)
    if not hidden:
        return []
    return [f"Not shown: {', '.join(f'{count} {name}' for name, count in hidden.items())} (--all shows them)"]


def _legend(flag_letters: Mapping[str, str]) -> Table:
    """Return the flags in words, each below its letter in the table."""
    table = Table.grid(padding=(0, 1, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for flag, letter in flag_letters.items():
        table.add_row(plain(letter, "yellow"), plain(f"{flag}: {explain(flag)}", "yellow"))
    return table


def footer(run: Run, rows: Sequence[Row], shown: Collection[str]) -> list[str]:
    """Return the lines below a table: how to read it, where it was measured, and what was not."""
    lines = []
    if any(row.runs > 1 for row in rows):
        lines.append("± is the half-width within the run; of several runs, half their range where that is larger.")
    elif rows:
        lines.append("± is the half-width within the run; another run of the same config may lie further away.")
    if any(row.input_bound for row in rows) and "data_share" in shown:
        lines.append("data wait with !: input-bound, the step takes that share longer than on batches already there.")
    if run.info.planned_samples is not None:
        lines.append(
            f"Times include the start and compiling, spread over the {run.info.planned_samples:,} samples planned."
        )
    limit = next((row.limit_bytes for row in rows if row.limit_bytes is not None), None)
    if limit is not None:
        what = "device" if run.accelerator else "host"
        lines.append(f"Ranked are configs whose peak {what} memory stays within {memory(limit)}.")
    lines.append(f"{THROUGHPUT_ONLY} {NOT_MEASURED}")
    source = run.info.source.script
    where = machine_line(run.info)
    lines.append(f"{Path(source).name}: {where}" if source else where)
    return lines
