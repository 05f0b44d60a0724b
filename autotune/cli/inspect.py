"""`autotune inspect`: what a script trains and how, seen in a few steps, and which options apply to it."""

from __future__ import annotations

import tempfile
from pathlib import Path

from autotune.cli import flags
from autotune.cli.naming import Named
from autotune.cli.parsing import parse_values, source_of


def inspect(
    script: flags.Script,
    arguments: flags.Arguments = None,
    baseline: flags.Baseline = None,
    device: flags.DeviceName = "",
    no_sandbox: flags.NoSandbox = False,
) -> None:
    """Run a few steps of SCRIPT and print what was found: loader, model, optimizer, step, and the options that apply.

    Arguments after -- are the script's own.
    """
    from rich.console import Console

    from autotune.cli.search import end_like_ctrl_c
    from autotune.report.found import print_found
    from autotune.report.options import print_options
    from autotune.search.run import check_script
    from autotune.search.setup import Wishes, prepare
    from autotune.trials.folder import RunFolder
    from autotune.trials.runner import ForkServerRunner

    source = source_of(script, arguments, Named())
    check_script(source)
    end_like_ctrl_c()
    with tempfile.TemporaryDirectory(prefix="autotune-") as scratch:
        folder = RunFolder(Path(scratch))
        folder.create()
        runner = ForkServerRunner(folder.server_log, sandbox=not no_sandbox)
        try:
            prepared = prepare(source, Wishes(device=device, baseline=parse_values(baseline or ())), runner, folder)
        finally:
            runner.close()
    console = Console()
    print_found(console, prepared.facts)
    print_options(console, prepared.space)
