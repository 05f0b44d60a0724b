"""`autotune show`: one trial whole."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def show(
    run: Annotated[Path, typer.Argument(help="The run folder.", show_default=False)],
    trial: Annotated[int, typer.Argument(help="The trial's number.", show_default=False)],
) -> None:
    """Show one trial: its phases, blocks, memory, and where it failed the error and your own traceback."""
    from rich.console import Console

    from autotune.report.run import read_run
    from autotune.report.trial import print_trial
    from autotune.trials.folder import RunFolder

    print_trial(Console(), read_run(RunFolder(run)), trial)
