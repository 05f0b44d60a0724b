"""`autotune results`: the trials of a run as a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from autotune.cli import flags
from autotune.errors import RunFolderError


def results(
    run: flags.RunArgument = None,
    sort: Annotated[str | None, typer.Option(help="Column to sort by.", show_default=False)] = None,
    everything: Annotated[bool, typer.Option("--all", help="Failed trials and replicates too.")] = False,
    csv: Annotated[bool, typer.Option("--csv", help="As CSV.")] = False,
    json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Compare the trials of a run: what differs from the baseline, throughput, step time, memory."""
    from rich.console import Console

    from autotune.report.export import rows_to_csv, rows_to_json
    from autotune.report.run import read_run
    from autotune.report.table import print_results
    from autotune.trials.folder import RunFolder

    found = read_run(RunFolder(newest_run() if run is None else run))
    if csv or json:
        typer.echo((rows_to_csv if csv else rows_to_json)(found, every=everything), nl=False)
        return
    print_results(Console(), found, sort=sort, every=everything)


def newest_run(root: Path = Path("results")) -> Path:
    """Return the run folder under `root` that was begun last.

    Raises:
        RunFolderError: there is none.
    """
    runs = sorted(root.glob("*/run.json"), key=lambda path: path.stat().st_mtime)
    if not runs:
        raise RunFolderError(f"there is no run under {root}/", hint="Name its folder: autotune results FOLDER")
    return runs[-1].parent
