"""`autotune results`: all runs with their verdicts, the trials of one, or two runs side by side."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autotune.cli.parsing import parse_where
from autotune.errors import RunFolderError, UsageError
from autotune.options import option_named

if TYPE_CHECKING:
    from autotune.report.run import Run
    from autotune.report.selection import Selection

ROOT = Path("results")
SHOW, OUTPUT = "What is shown", "Output"


def results(
    run: Annotated[
        Path | None,
        typer.Argument(
            help="A run folder. Without one: all runs under results/; with an option of a run, the newest.",
            show_default=False,
        ),
    ] = None,
    sort: Annotated[
        str | None, typer.Option(help="Column to sort by.", show_default=False, rich_help_panel=SHOW)
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Failed trials and replicates too.", rich_help_panel=SHOW)
    ] = False,
    where: Annotated[
        list[str] | None,
        typer.Option(
            help="Only trials with this value: precision=bf16, or num_workers=0,2. Repeatable.",
            show_default=False,
            rich_help_panel=SHOW,
        ),
    ] = None,
    pareto: Annotated[
        bool,
        typer.Option(
            "--pareto", help="The fastest config for each memory size, as a plot and a table.", rich_help_panel=SHOW
        ),
    ] = False,
    group_by: Annotated[
        str | None,
        typer.Option(
            "--group-by", help="A row for each value of this option.", show_default=False, rich_help_panel=SHOW
        ),
    ] = None,
    compare: Annotated[
        tuple[Path, Path] | None,
        typer.Option(help="Two runs of one script side by side.", show_default=False, rich_help_panel=SHOW),
    ] = None,
    csv: Annotated[bool, typer.Option("--csv", help="As CSV.", rich_help_panel=OUTPUT)] = False,
    json: Annotated[bool, typer.Option("--json", help="As JSON.", rich_help_panel=OUTPUT)] = False,
) -> None:
    """List all runs with their verdicts, or compare the trials of RUN: what differs, throughput, step time, memory."""
    from autotune.report.run import read_run
    from autotune.report.selection import Selection
    from autotune.trials.folder import RunFolder

    if csv and json:
        raise UsageError("--csv and --json: one of them")
    selection = Selection(every=everything, where=parse_where(where or ()), pareto=pareto, sort=sort)
    of_a_run = selection != Selection() or group_by is not None
    if compare is not None:
        if run is not None or of_a_run or csv:
            raise UsageError("--compare RUN1 RUN2 takes the two runs, and --json; nothing else")
        _compare(*(read_run(RunFolder(path)) for path in compare), json=json)
        return
    if run is None and not of_a_run:
        _list(csv=csv, json=json)
        return
    if run is None:
        run = newest_run()
        typer.echo(f"{run}, the newest run:", err=True)
    found = read_run(RunFolder(run))
    if group_by is not None:
        if sort is not None or pareto:
            raise UsageError("--group-by goes with neither --sort nor --pareto")
        _group(found, selection, group_by, csv=csv, json=json)
    else:
        _show(found, selection, csv=csv, json=json)


def _show(run: Run, selection: Selection, *, csv: bool, json: bool) -> None:
    from rich.console import Console

    from autotune.report.export import rows_to_csv, rows_to_json
    from autotune.report.table import print_results

    if csv or json:
        sys.stdout.write((rows_to_csv if csv else rows_to_json)(run, rows=selection.rows(run)))
    else:
        print_results(Console(), run, selection)


def _group(run: Run, selection: Selection, option: str, *, csv: bool, json: bool) -> None:
    from rich.console import Console

    from autotune.report.grouped import groups_csv, groups_json, print_groups
    from autotune.report.selection import groups

    option_named(option)
    found = groups(selection.rows(run), option)
    if csv or json:
        sys.stdout.write((groups_csv if csv else groups_json)(found, option))
    else:
        print_groups(Console(), found, option)


def _compare(first: Run, second: Run, *, json: bool) -> None:
    from rich.console import Console

    from autotune.report.compare import compare_runs, comparison_json, print_comparison

    found = compare_runs(first, second)
    if json:
        sys.stdout.write(comparison_json(first, second, found))
    else:
        print_comparison(Console(), first, second, found)


def _list(*, csv: bool, json: bool) -> None:
    from rich.console import Console

    from autotune.report.catalogue import catalogue_csv, catalogue_json, entry, print_catalogue, run_folders

    entries = [entry(path) for path in run_folders(ROOT)]
    if csv or json:
        sys.stdout.write((catalogue_csv if csv else catalogue_json)(entries))
    elif entries:
        print_catalogue(Console(), entries)
    else:
        raise _no_run(ROOT)


def newest_run(root: Path = ROOT) -> Path:
    """Return the run folder under `root` that was begun last.

    Raises:
        RunFolderError: there is none.
    """
    from autotune.report.catalogue import run_folders

    runs = run_folders(root)
    if not runs:
        raise _no_run(root)
    return runs[0]


def _no_run(root: Path) -> RunFolderError:
    return RunFolderError(f"there is no run under {root}/", hint="Name its folder: autotune results FOLDER")
