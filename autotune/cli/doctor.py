"""`autotune doctor`: what no option can fix."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from autotune.cli import flags
from autotune.cli.parsing import parse_values, source_of


def doctor(
    script: flags.Script,
    arguments: flags.Arguments = None,
    config: Annotated[
        Path | None,
        typer.Option(help="A tuned state to look at: a config file, or a run folder.", show_default=False),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="The diagnosis as JSON.")] = False,
    workload: flags.WorkloadName = "",
    model: flags.ModelName = "",
    dataset: flags.DatasetName = "",
    optimizer: flags.OptimizerName = "",
    loss: flags.LossName = "",
    training_step: flags.StepName = "",
    collate_fn: flags.CollateName = "",
    loader: flags.LoaderName = "",
    baseline: flags.Baseline = None,
    device: flags.DeviceName = "",
    no_lock: flags.NoLock = False,
    wait: flags.Wait = False,
) -> None:
    """Look for what slows SCRIPT and is no setting: where its time goes, and faults with file, line and gain.

    Takes about a minute. Changes nothing; the exit status is 0 with or without findings.
    """
    from json import dumps

    from rich.console import Console

    from autotune.cli.search import end_like_ctrl_c
    from autotune.config import Config
    from autotune.doctor.findings import to_document
    from autotune.doctor.run import diagnose
    from autotune.report.doctor import print_diagnosis
    from autotune.search.run import check_script
    from autotune.trials.folder import RunFolder
    from autotune.trials.lock import DeviceLocks
    from autotune.trials.runner import ForkServerRunner

    functions = {
        "model": model,
        "dataset": dataset,
        "optimizer": optimizer,
        "loss": loss,
        "training_step": training_step,
        "collate_fn": collate_fn,
        "loader": loader,
    }
    tuned = None
    if config is not None:
        tuned = Config.load(config / "best.toml" if config.is_dir() else config)
    today = parse_values(baseline or ())
    source = source_of(script, arguments, workload, functions)
    check_script(source)
    end_like_ctrl_c()
    console = Console(stderr=True)
    with tempfile.TemporaryDirectory(prefix="autotune-") as scratch:
        folder = RunFolder(Path(scratch))
        folder.create()
        locks = DeviceLocks(script.name, console.print, wait=wait, enabled=not no_lock)
        runner = ForkServerRunner(folder.server_log, sandbox=True)
        try:
            locks.take(device)
            with console.status("import") as status:
                found = diagnose(
                    source,
                    folder,
                    runner,
                    config=tuned,
                    baseline=today,
                    device=device,
                    report=lambda message: status.update(str(message["phase"])),
                )
        finally:
            runner.close()
            locks.release()
    if json:
        typer.echo(dumps(to_document(found)))
    else:
        print_diagnosis(Console(), found, script.name)
