"""The end of a search: the best config, what it changes, and how to use it. Figures here are screening figures."""

from __future__ import annotations

import shlex
from collections import Counter
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from autotune.config import Config, read_document
from autotune.options import OPTIONS, Value
from autotune.report.columns import OUTCOMES
from autotune.report.figures import memory, percent, rounded
from autotune.report.flags import explain
from autotune.report.rows import Row, differs_from, rows_of_run, screening_noise
from autotune.report.run import Run, machine_line
from autotune.report.table import THROUGHPUT_ONLY, screening_line
from autotune.report.text import plain, value_text, values_text


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
) -> None:
    """Print the outcome of a search.

    Args:
        best: the config that the search hands back; None: the first in rank.
        verdict: the sentence of a verification; empty: there was none.
        path: of the emitted config; None: best.toml of the run folder.
        command: a command line that trains with it; empty: there is none to show.
        same_batch: the best config that keeps the baseline's batch size, where that is another one.
        same_batch_verdict: its own sentence of the verification.
    """
    rows = rows_of_run(run)
    folder = shlex.quote(str(run.folder.path))
    first = next((row for row in rows if row.rank == 1), None)
    if best is None:
        best = first.config if first is not None else None
    if best is None:
        console.print(plain(_nothing(rows), "bold"))
        return
    console.print(
        plain(verdict, "bold green") if verdict else plain(f"Not verified: run `autotune verify {folder}`", "bold")
    )
    after = _row_of(rows, best)
    before = _row_of(rows, run.baseline)
    console.print()
    console.print(_options_table(best, run.baseline))
    if after is not None:
        console.print()
        console.print(plain(screening_line([row for row in (before, after) if row], screening_noise(rows)), "bold"))
        console.print(_figures_table(before, after))
        if after.flags:
            console.print(plain("Flags of the best config:", "yellow"))
        for flag in after.flags:
            console.print(plain(f"  {explain(flag)}", "yellow"))
    console.print()
    path = path or run.folder.best
    for line in emitted_notes(path):
        console.print(plain(line))
    if same_batch is not None and same_batch != best:
        differs = values_text(differs_from(same_batch, run.baseline)) or "the baseline itself"
        console.print(plain(f"Best with the baseline's batch size: {differs}", "bold"))
        console.print(plain(f"  {same_batch_verdict or 'not verified'}; {run.folder.best_same_batch}"))
    console.print(plain(f"{THROUGHPUT_ONLY} {machine_line(run.info)}.", "dim"))
    _print_commands(console, run, path, command)


def emitted_notes(path: Path) -> list[str]:
    """Return the notes of the emitted config, which know the workload too; none where there is no such file."""
    if not path.exists():
        return []
    lines = read_document(path).get("notes", {}).get("lines", [])
    return [str(line) for line in lines]


def _options_table(best: Config, baseline: Config) -> Table:
    """Return what the best config changes."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for title in ("option", "before", "after"):
        table.add_column(title, overflow="fold")
    changed = best.difference(baseline)
    for name, value in changed.items():
        needed = OPTIONS[name].needs
        inert = name not in best and needed is not None
        table.add_row(
            plain(name), plain(_today(baseline, name)), plain("no effect" if inert else value_text(value), "bold")
        )
    if not changed:
        table.add_row(plain("the baseline is the best config found"), plain(""), plain(""))
    return table


def _today(baseline: Config, name: str) -> str:
    inert = name not in baseline and OPTIONS[name].needs is not None
    value: Value = baseline.value(name)
    return "no effect" if inert else value_text(value)


def _figures_table(before: Row | None, after: Row) -> Table:
    """Return the screening figures of the baseline and the best config."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for title in ("", "before", "after"):
        table.add_column(title, justify="left" if not title else "right", no_wrap=True)
    for title, cell in (
        ("samples/s", _samples),
        ("±", lambda row: "" if row.uncertainty is None else percent(row.uncertainty)),
        ("step ms", _step_ms),
        ("peak memory", lambda row: "" if row.peak_bytes is None else memory(row.peak_bytes)),
        ("runs", lambda row: str(row.runs)),
    ):
        table.add_row(plain(title), plain("" if before is None else cell(before)), plain(cell(after)))
    return table


def _samples(row: Row) -> str:
    return "" if row.samples_per_s is None else rounded(row.samples_per_s, row.samples_per_s * (row.uncertainty or 0.0))


def _step_ms(row: Row) -> str:
    return "" if row.step_s is None else rounded(1e3 * row.step_s, 1e3 * row.step_s * (row.uncertainty or 0.0))


def _row_of(rows: list[Row], config: Config) -> Row | None:
    return next((row for row in rows if row.config == config and row.measured), None)


def _nothing(rows: list[Row]) -> str:
    counts = Counter("over the limit" if row.measured else OUTCOMES[row.outcome] for row in rows)
    told = ", ".join(f"{count} {name}" for name, count in counts.items())
    return f"No config was measured within the limits: {told or 'no trial was run'}."


def _print_commands(console: Console, run: Run, path: Path, command: str) -> None:
    """Print what to do next; soft-wrapped, so that a command can be copied whole."""
    folder = shlex.quote(str(run.folder.path))
    lines = [
        ("apply", f'config = autotune.Config.load("{path}")'),
        ("or", command),
        ("see all", f"autotune results {folder}"),
    ]
    console.print()
    for what, line in lines:
        if line:
            console.print(plain(f"{what:<8} {line}"), soft_wrap=True)
