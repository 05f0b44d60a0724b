"""The command line: parse, call, print. One file a command; the only place where an error becomes an exit status."""

from __future__ import annotations

import io
import os
import sys
import warnings
from pathlib import Path

import typer

from autotune.cli import (
    doctor,
    explain,
    export,
    init,
    inspect,
    memory,
    options,
    profile,
    report,
    results,
    run,
    search,
    show,
    verify,
)
from autotune.cli.output import FULL, WRITES_FAILED, discard
from autotune.errors import AutotuneError, UsageError

STDOUT = 1
PACKAGE = Path(__file__).parents[1]
AS_EVER = warnings.formatwarning

app = typer.Typer(
    name="autotune",
    help="Find the fastest settings for a PyTorch training script within the memory it has, by measurement.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (
    search.search,
    run.run,
    inspect.inspect,
    init.init,
    results.results,
    report.report,
    export.export,
    show.show,
    verify.verify,
    options.options,
    explain.explain,
    doctor.doctor,
    memory.memory,
    profile.profile,
):
    app.command()(command)


@app.callback(invoke_without_command=True)
def version(
    context: typer.Context, show_version: bool = typer.Option(False, "--version", help="Print the version.")
) -> None:
    if show_version:
        from autotune import __version__

        print(__version__)
        raise typer.Exit


def main() -> None:
    """Run the command line; errors of ours become one clear message and an exit status."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a script's words and names may hold what the terminal cannot show
            stream.reconfigure(errors="backslashreplace")
    warnings.formatwarning = _format_warning
    try:
        if not sys.platform.startswith("linux"):
            raise UsageError(f"autotune works on Linux; this is {sys.platform}")
        app()
    except AutotuneError as error:
        _print_error(error)
        sys.exit(error.exit_status)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:  # the reader of our pipe has seen enough
        sys.stderr.close()
        sys.exit(0)
    except OSError as error:
        if isinstance(error.filename, str | bytes):  # of our own code: what a script raises arrives as its record
            _print_error(_unusable(error))
            sys.exit(UsageError.exit_status)
        if error.errno not in FULL:
            raise
        discard(STDOUT)  # what is left in the buffer would fail once more
        _print_error(AutotuneError(f"{WRITES_FAILED}: {error.strerror}"))
        sys.exit(1)


def _format_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
) -> str:
    """Return a warning of ours as one line, without our code; a script's own as ever."""
    if Path(filename).is_relative_to(PACKAGE):
        from autotune.words.text import clean

        return f"warning: {clean(str(message))}\n"
    return str(AS_EVER(message, category, filename, lineno, line))


def _unusable(error: OSError) -> UsageError:
    """Return what it means that a file or folder cannot be had: its name is too long, it lies below a file, ..."""
    return UsageError(
        f"cannot use {os.fsdecode(error.filename)}: {error.strerror}",
        hint="Name another file or folder, or see to it that this one can be read and written.",
    )


def _print_error(error: AutotuneError) -> None:
    from rich.console import Console
    from rich.text import Text

    from autotune.words.text import clean, plain

    console = Console(stderr=True, soft_wrap=True, highlight=False)
    if error.traceback:
        console.print(plain(error.traceback.rstrip()))
    console.print(Text.assemble(("error: ", "bold red"), clean(error.message)))
    if error.hint:
        console.print(plain(error.hint))
