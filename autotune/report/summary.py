"""The end of a search: the best config, what it changes, and how to use it. Figures here are screening figures."""

from __future__ import annotations

import shlex
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from autotune.config import Config
from autotune.drift import drifts
from autotune.report.flags import explain
from autotune.report.outcome import (
    UNCHANGED,
    apply_line,
    before_and_after,
    changes,
    emitted_notes,
    nothing_measured,
    row_of,
)
from autotune.report.rows import Row, differs_from, rows_of_run, screening_noise
from autotune.report.run import Run, machine_line
from autotune.report.table import THROUGHPUT_ONLY, screening_line
from autotune.report.text import plain, values_text


def print_summary(
    console: Console,
    run: Run,
    *,
    best: Config | None = None,
    verdict: str = "",
    path: Path | None = None,
    command: str = "",
    same_batch: Config | None = None,
    same_batch_verdict: str = "",
    numerics: str = "",
) -> None:
    """Print the outcome of a search.

    Args:
        best: the config that the search hands back; None: the first in rank.
        verdict: the sentence of a verification; empty: there was none.
        path: of the emitted config; None: best.toml of the run folder.
        command: a command line that trains with it; empty: there is none to show.
        same_batch: the best config that keeps the baseline's samples per optimizer step, where that is another one.
        same_batch_verdict: its own sentence of the verification.
        numerics: what was checked of the best config's maths, in a sentence; empty: nothing, as for the baseline.
    """
    rows = rows_of_run(run)
    folder = shlex.quote(str(run.folder.path))
    first = next((row for row in rows if row.rank == 1), None)
    if best is None:
        best = first.config if first is not None else None
    if best is None:
        console.print(plain(nothing_measured(rows), "bold"))
        return
    console.print(
        plain(verdict, "bold green") if verdict else plain(f"Not verified: run `autotune verify {folder}`", "bold")
    )
    if numerics:
        console.print(plain(numerics))
    after = row_of(rows, best)
    before = row_of(rows, run.baseline)
    console.print()
    console.print(_options_table(best, run.baseline))
    if after is not None:
        console.print()
        console.print(plain(screening_line([row for row in (before, after) if row], screening_noise(rows)), "bold"))
        console.print(_figures_table(before, after))
        if run.info.planned_samples is not None:
            console.print(
                plain(f"These include the time to start, spread over the {run.info.planned_samples:,} samples planned.")
            )
        if after.flags:
            console.print(plain("Flags of the best config:", "yellow"))
        for flag in after.flags:
            console.print(plain(f"  {explain(flag)}", "yellow"))
    for drift in drifts(run.records):
        console.print(plain(drift.sentence(), "bold yellow"))
    console.print()
    path = path or run.folder.best
    for line in emitted_notes(path):
        console.print(plain(line))
    if same_batch is not None and same_batch != best:
        differs = values_text(differs_from(same_batch, run.baseline)) or "the baseline itself"
        console.print(plain(f"Best with the baseline's samples per optimizer step: {differs}", "bold"))
        console.print(plain(f"  {same_batch_verdict or 'not verified'}; {run.folder.best_same_batch}"))
    console.print(plain(f"{THROUGHPUT_ONLY} {machine_line(run.info)}.", "dim"))
    _print_commands(console, run, path, command)


def _options_table(best: Config, baseline: Config) -> Table:
    """Return what the best config changes."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for title in ("option", "before", "after"):
        table.add_column(title, overflow="fold")
    changed = changes(best, baseline)
    for change in changed:
        table.add_row(plain(change.option), plain(change.before), plain(change.after, "bold"))
    if not changed:
        table.add_row(plain(UNCHANGED), plain(""), plain(""))
    return table


def _figures_table(before: Row | None, after: Row) -> Table:
    """Return the screening figures of the baseline and the best config."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for title in ("", "before", "after"):
        table.add_column(title, justify="left" if not title else "right", no_wrap=True)
    for cells in before_and_after(before, after):
        table.add_row(*map(plain, cells))
    return table


def _print_commands(console: Console, run: Run, path: Path, command: str) -> None:
    """Print what to do next; soft-wrapped, so that a command can be copied whole."""
    folder = shlex.quote(str(run.folder.path))
    lines = [
        ("apply", apply_line(path, run.info.source)),
        ("or", command),
        ("see all", f"autotune results {folder}"),
    ]
    console.print()
    for what, line in lines:
        if line:
            console.print(plain(f"{what:<8} {line}"), soft_wrap=True)
