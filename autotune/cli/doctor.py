"""`autotune doctor`: what no option can fix."""

from __future__ import annotations

from typing import Annotated

import typer

from autotune.cli import flags
from autotune.cli.looking import ConfigPath, config_at, looking
from autotune.cli.naming import Named, names_workload
from autotune.cli.parsing import parse_values


@names_workload
def doctor(
    script: flags.Script,
    arguments: flags.Arguments = None,
    config: ConfigPath = None,
    json: Annotated[bool, typer.Option("--json", help="The diagnosis as JSON.")] = False,
    *,
    named: Named,
    baseline: flags.Baseline = None,
    device: flags.DeviceName = "",
    no_lock: flags.NoLock = False,
    wait: flags.Wait = False,
) -> None:
    """Look for what slows SCRIPT and is no setting: where its time goes, and faults with file, line and gain.

    Takes about a minute. Changes nothing; the exit status is 0 with or without findings.
    """
    from rich.console import Console

    from autotune.doctor.findings import to_document
    from autotune.doctor.run import diagnose
    from autotune.report.doctor import print_diagnosis
    from autotune.report.strict_json import strict_json

    tuned, today = config_at(config), parse_values(baseline or ())
    with looking(script, arguments, named, device=device, wait=wait, no_lock=no_lock) as look:
        found = diagnose(look, config=tuned, baseline=today)
    if json:
        typer.echo(strict_json(to_document(found)))
    else:
        print_diagnosis(Console(), found, script.name)
