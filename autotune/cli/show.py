"""`autotune show`: one trial whole, or its config as a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from autotune.cli.output import check_unused


def show(
    run: Annotated[Path, typer.Argument(help="The run folder.", show_default=False)],
    trial: Annotated[int, typer.Argument(help="The trial's number.", show_default=False)],
    out: Annotated[
        Path | None,
        typer.Option(help="Write the trial's config, which is not verified, to this file instead.", show_default=False),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file.")] = False,
) -> None:
    """Show one trial: its phases, blocks, memory, and where it failed the error and your own traceback.

    With --out its config is written in the form of best.toml instead, with what the search measured of it.
    """
    from rich.console import Console

    from autotune.report.run import read_run
    from autotune.report.trial import print_trial
    from autotune.report.trial_config import write_config
    from autotune.trials.folder import RunFolder

    found = read_run(RunFolder(run))
    if out is None:
        print_trial(Console(), found, trial)
        return
    check_unused(out, force=force)
    write_config(found, trial, out)
    typer.echo(f"{out} written: the config of trial {trial}, not verified")
    if found.info.source.script:
        typer.echo(f"autotune verify {out} measures it against the baseline")
