"""`autotune memory`: where the memory of a step goes, and which batch size fits."""

from __future__ import annotations

import itertools
import os
import shutil
from pathlib import Path
from typing import Annotated

import typer

from autotune.cli import flags
from autotune.cli.looking import ConfigPath, config_at, looking
from autotune.cli.naming import Named, names_workload
from autotune.cli.output import check_unused
from autotune.cli.parsing import parse_values
from autotune.errors import UsageError
from autotune.sizes import parse_size

SNAPSHOT = Path("memory-snapshot.pickle")


@names_workload
def memory(
    script: flags.Script,
    arguments: flags.Arguments = None,
    config: ConfigPath = None,
    memory_limit: Annotated[
        str | None,
        typer.Option(help="Find the largest batch size that fits into this, and run it: 20GiB.", show_default=False),
    ] = None,
    snapshot: Annotated[
        Path | None,
        typer.Option(
            help="On CUDA: where torch's own memory snapshot goes, for pytorch.org/memory_viz; "
            f"default: {SNAPSHOT}, numbered where that is there.",
            show_default=False,
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the snapshot.")] = False,
    json: Annotated[bool, typer.Option("--json", help="The account as JSON.")] = False,
    *,
    named: Named,
    baseline: flags.Baseline = None,
    device: flags.DeviceName = "",
    no_lock: flags.NoLock = False,
    wait: flags.Wait = False,
) -> None:
    """Show where the memory of a training step of SCRIPT goes, by kind, by module and over one step.

    With --memory-limit, also the largest batch size that fits: predicted from two sizes, then run. On the CPU the
    limit is for all that the process holds, Python and libraries included.
    """
    from dataclasses import asdict

    from rich.console import Console

    from autotune.doctor.memory.run import account_for, with_snapshot
    from autotune.report.memory import print_memory
    from autotune.report.strict_json import strict_json

    tuned, today = config_at(config), parse_values(baseline or ())
    limit = parse_size(memory_limit, "--memory-limit")
    if snapshot is not None:
        check_unused(snapshot, force=force)
    lost = ""
    with looking(script, arguments, named, device=device, wait=wait, no_lock=no_lock) as look:
        found = account_for(look, config=tuned, baseline=today, limit=limit)
        if found.account.snapshot:
            snapshot = snapshot or _free(SNAPSHOT)
            lost = _copy(found.account.snapshot, snapshot)
            found = with_snapshot(found, "" if lost else str(snapshot))
    if json:
        typer.echo(strict_json(asdict(found)))
    else:
        print_memory(Console(), found, script.name)
    if lost:  # said last: the account took a run to make
        raise UsageError(f"cannot write {snapshot}: {lost}", hint="Name another with --snapshot.")


def _copy(source: str, target: Path) -> str:
    """Copy a file; return why that failed, or an empty text."""
    try:
        shutil.copyfile(source, target)
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _free(path: Path) -> Path:
    """Return the path, with a number where something is there already."""
    numbered = (path.with_stem(f"{path.stem}-{number}") for number in itertools.count(2))
    return next(item for item in itertools.chain([path], numbered) if not os.path.lexists(item))
