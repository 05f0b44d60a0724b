"""The results table in the terminal: as many columns as fit, the flags in words below, and what was not measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

from autotune.report.columns import COLUMNS, OUTCOMES, Column, legend, letters, sort_rows
from autotune.report.figures import memory, percent
from autotune.report.rows import Row, rows_of_run, screening_noise
from autotune.report.run import Run, machine_line
from autotune.report.text import plain

FOLDING_WIDTH = 26  # columns of text that a folding column needs to be read
ANY_WIDTH = 10_000
THROUGHPUT_ONLY = "Throughput only: a changed batch size or precision may change convergence."


def print_results(console: Console, run: Run, *, every: bool = False, sort: str | None = None) -> None:
    """Print the results of a search.

    Args:
        every: each run in a row of its own, failed ones too; else one row a config that was measured.
        sort: name of a column; None: what fits and was measured first, by time per sample.

    Raises:
        UsageError: no column of that name.
    """
    everything = rows_of_run(run, merge=not every)
    rows = everything if every else [row for row in everything if row.measured]
    if sort is not None:
        rows = sort_rows(rows, sort)
    console.print(plain(screening_line(rows), "bold"))
    if rows:
        found = letters(rows)
        console.print(results_table(rows, console, flag_letters=found))
        for line in legend(found):
            console.print(plain(line, "yellow"))
    else:
        console.print(plain("No config was measured."))
    for line in (*_counts(everything, rows), *footer(run, rows)):
        console.print(plain(line, "dim"))


def screening_line(rows: Sequence[Row]) -> str:
    """Return the heading that every table of search results has: what its figures are not."""
    runs = "single run each" if all(row.runs == 1 for row in rows) else "single run each where `runs` says no more"
    noise = screening_noise(rows)
    comparable = "" if noise is None else f", not comparable across rows within ±{percent(noise)}"
    return f"Screening, {runs}{comparable}"


def results_table(
    rows: Sequence[Row], console: Console, *, columns: Sequence[Column] = COLUMNS, flag_letters: dict[str, str]
) -> Table:
    """Return the table with the most important columns that the console has room for."""
    shown = [column for column in columns if not column.optional or any(column.cell(row) for row in rows)]
    while True:
        table = _table(rows, shown, flag_letters)
        unlimited = console.options.update(width=ANY_WIDTH)
        if Measurement.get(console, unlimited, table).minimum <= console.width or len(shown) <= 4:
            return table
        shown.remove(min(shown, key=lambda column: column.importance))


def _table(rows: Sequence[Row], columns: Sequence[Column], flag_letters: dict[str, str]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1), show_edge=False)
    for column in columns:
        longest = max(len(text) for text in (column.title, *(column.cell(row) for row in rows)))
        table.add_column(
            column.title,
            justify="right" if column.numeric else "left",
            no_wrap=not column.folds,
            overflow="fold",
            min_width=min(longest, FOLDING_WIDTH) if column.folds else None,
        )
    if flag_letters:
        table.add_column("flags", no_wrap=True)
    for row in rows:
        cells = [plain(column.cell(row)) for column in columns]
        if flag_letters:
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


def footer(run: Run, rows: Sequence[Row]) -> list[str]:
    """Return the lines below a table: how to read it, where it was measured, and what was not."""
    lines = []
    if any(row.runs > 1 for row in rows):
        lines.append("± is the half-width within the run; of several runs, half their range where that is larger.")
    elif rows:
        lines.append("± is the half-width within the run; another run of the same config may lie further away.")
    if any(row.input_bound for row in rows):
        lines.append("data wait with !: input-bound, the step takes that share longer than on batches already there.")
    limit = next((row.limit_bytes for row in rows if row.limit_bytes is not None), None)
    if limit is not None:
        what = "device" if run.accelerator else "host"
        lines.append(f"Ranked are configs whose peak {what} memory stays within {memory(limit)}.")
    lines.append(THROUGHPUT_ONLY + " Not measured: loss after training, validation, checkpoints.")
    source = run.info.source.script
    where = machine_line(run.info)
    lines.append(f"{Path(source).name}: {where}" if source else where)
    return lines
