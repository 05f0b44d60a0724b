"""`autotune profile`: a trace of a few steady steps, and what the heaviest operations take before and after."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from autotune.cli import flags
from autotune.cli.looking import ConfigPath, config_at, looking
from autotune.cli.naming import Named, names_workload
from autotune.cli.parsing import parse_values


@names_workload
def profile(
    script: flags.Script,
    arguments: flags.Arguments = None,
    config: ConfigPath = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder for the traces; default: profile/ in the run folder of --config, else profile-SCRIPT/.",
            show_default=False,
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="The operations as JSON.")] = False,
    *,
    named: Named,
    baseline: flags.Baseline = None,
    device: flags.DeviceName = "",
    no_lock: flags.NoLock = False,
    wait: flags.Wait = False,
) -> None:
    """Trace a few steady steps of SCRIPT for Perfetto, and show the ten heaviest operations.

    With --config, today's settings and the config are traced in turn, each in a process of its own, and the table has
    the share of each operation before and after. Step times here are rough: `autotune verify` compares two configs.
    """
    from dataclasses import asdict

    from rich.console import Console

    from autotune.doctor.profile.run import profile as profile_both
    from autotune.report.profile import print_profiles
    from autotune.report.strict_json import strict_json

    tuned, today = config_at(config), parse_values(baseline or ())
    folder = out or _folder(config, script)
    with looking(script, arguments, named, device=device, wait=wait, no_lock=no_lock) as look:
        found = profile_both(look, folder, config=tuned, baseline=today)
    if json:
        typer.echo(strict_json(asdict(found)))
    else:
        print_profiles(Console(), found, script.name)


def _folder(config: Path | None, script: Path) -> Path:
    """Return where the traces go: into the run folder that the config comes from, where it comes from one."""
    run = config if config is None or config.is_dir() else config.parent
    if run is not None and (run / "run.json").exists():
        return run / "profile"
    return Path(f"profile-{script.stem}")
