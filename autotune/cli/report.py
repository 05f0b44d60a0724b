"""`autotune report`: a run as one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autotune.cli import flags
from autotune.cli.output import check_unused
from autotune.cli.results import newest_run

if TYPE_CHECKING:
    from autotune.trials.folder import RunFolder


def report(
    run: flags.RunArgument = None,
    out: Annotated[
        Path | None, typer.Option(help="The file to write; default: report.html in the run folder.", show_default=False)
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file.")] = False,
    browse: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
) -> None:
    """Write report.html: the verdict, every plot and every trial of a run in one file that opens offline."""
    from autotune.trials.folder import RunFolder

    if out is not None:
        check_unused(out, force=force)
    path = write_report(RunFolder(newest_run() if run is None else run), out)
    typer.echo(path)
    if browse:
        typer.launch(path.resolve().as_uri())


def write_report(folder: RunFolder, out: Path | None = None) -> Path:
    """Write the page of a run folder; return where it is.

    Raises:
        RunFolderError: no search was begun there, a file of it is damaged, or the page cannot be written.
    """
    from autotune.report.html.page import write_page
    from autotune.report.run import read_run
    from autotune.search.explain import explain_if_measured

    found = read_run(folder)
    return write_page(found, explain_if_measured(found.info, found.screening), out)
