"""`autotune verify`: the baseline against a config, interleaved, with a verdict."""

from __future__ import annotations

import re
import tempfile
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from autotune.cli import flags
from autotune.cli.parsing import parse_values, way_of
from autotune.errors import ConfigError, UsageError
from autotune.sizes import parse_share, parse_size


def verify(
    config: Annotated[Path, typer.Argument(help="A config file, or a run folder with its best.toml.")],
    script: Annotated[
        Path | None, typer.Option(help="The training script; default: the one the file names.", show_default=False)
    ] = None,
    how: Annotated[str, typer.Option("--verify", help="full: 6 to 12 rounds; quick: 6 rounds.")] = "full",
    aa: Annotated[bool, typer.Option("--aa", help="Self-test: the baseline against itself.")] = False,
    min_speedup: Annotated[
        float | None,
        typer.Option(min=0.01, help="Exit with 1 unless so large a speed-up is proven.", show_default=False),
    ] = None,
    timeout: Annotated[float | None, typer.Option(min=1, help="Seconds in all.", show_default=False)] = None,
    seed: Annotated[int, typer.Option(help="Decides the order of the rounds.")] = 0,
    out: Annotated[
        Path | None, typer.Option(help="Folder that keeps every window's record.", show_default=False)
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="The verdict with its raw windows as JSON.")] = False,
    baseline: flags.Baseline = None,
    device: Annotated[
        str,
        typer.Option(
            help="cpu, cuda, cuda:1, ...; without it, the one that the search was told, else the best there is.",
            rich_help_panel=flags.WORKLOAD,
            show_default=False,
        ),
    ] = "",
    memory_limit: flags.MemoryLimit = None,
    host_memory_limit: flags.HostMemoryLimit = None,
    headroom: flags.Headroom = "5%",
    trial_timeout: flags.TrialTimeout = 300.0,
    no_sandbox: flags.NoSandbox = False,
    wait: flags.Wait = False,
    no_lock: flags.NoLock = False,
    wait_idle: flags.WaitIdle = None,
) -> None:
    """Measure the baseline against a config in fresh processes, in ABBA order, and say what is proven.

    First the numerics guard trains both on the same samples; the exit status is 1 where the config fails it.
    With --min-speedup it guards a repository: the exit status is 1 where the speed-up is not proven.
    """
    from rich.console import Console

    from autotune.cli.search import end_like_ctrl_c
    from autotune.config import Config, read_document
    from autotune.report.strict_json import strict_json
    from autotune.report.view import make_view
    from autotune.search.check import verify_config
    from autotune.search.run import check_script
    from autotune.search.setup import Wishes
    from autotune.search.verification import sentence
    from autotune.search.verification.design import DESIGNS
    from autotune.trials.folder import RunFolder
    from autotune.trials.lock import DeviceLocks
    from autotune.trials.quiet import QuietRunner
    from autotune.trials.runner import ForkServerRunner, Runner

    if how not in DESIGNS:
        raise UsageError(f"unknown --verify: {how}", hint=f"It is one of: {', '.join(DESIGNS)}")
    path = config / "best.toml" if config.is_dir() else config
    candidate = Config.load(path)
    document = read_document(path)
    made_for = document.get("workload", {})
    source = _source(made_for, script, path)
    if script is None and not Path(source.script).exists():
        raise UsageError(f"{path} was made for {source.script}, which is not here", hint="Say where: --script train.py")
    check_script(source)
    today = parse_values(baseline) if baseline else _baseline(made_for, path)
    wishes = Wishes(
        device=device or _device(document.get("machine"), path),
        baseline=today,
        allowed=frozenset(candidate),  # whoever gives the file asks for what stands in it
        timeout_s=timeout,
        seed=seed,
        memory_limit_bytes=parse_size(memory_limit, "--memory-limit"),
        host_memory_limit_bytes=parse_size(host_memory_limit, "--host-memory-limit"),
        headroom=parse_share(headroom, "--headroom"),
        trial_timeout_s=trial_timeout,
        lock=not no_lock,
        wait=wait,
        wait_idle_s=wait_idle,
    )
    if out is not None and RunFolder(out).exists:
        raise UsageError(f"{out} holds a search, whose proof stays as it is", hint="Name another folder with --out.")
    end_like_ctrl_c()
    console = Console(stderr=json)
    with tempfile.TemporaryDirectory(prefix="autotune-") as scratch:
        folder = RunFolder(out or Path(scratch))
        folder.create()
        view = make_view(console)
        locks = DeviceLocks(Path(source.script).name, view.note, wait=wait, enabled=not no_lock)
        runner: Runner = ForkServerRunner(folder.server_log, sandbox=not no_sandbox)
        if wait_idle is not None:
            runner = QuietRunner(runner, wait_idle, view.note)
        try:
            found, numerics = verify_config(
                source,
                None if aa else candidate,
                folder,
                wishes,
                runner,
                view,
                how=how,
                least=min_speedup,
                locks=locks,
            )
        finally:
            view.finished()
            runner.close()
            locks.release()
    if json:
        document = asdict(found) | ({"numerics": asdict(numerics)} if numerics is not None else {})
        typer.echo(strict_json(document))
    else:
        typer.echo(sentence(found))
        if numerics is not None:
            typer.echo(numerics.sentence)
    if numerics is not None and numerics.demotes:
        raise typer.Exit(1)
    if min_speedup is not None and not found.reaches(min_speedup):
        typer.echo(f"a speed-up of {min_speedup:g}x is not proven", err=True)
        raise typer.Exit(1)


def _source(made_for: Any, script: Path | None, path: Path) -> Any:
    """Return where the workload comes from: the file says it, or the command line does."""
    from autotune.records import Source

    if not isinstance(made_for, dict):
        raise ConfigError(f"{path}: [workload] is not a table")
    named = Path(str(made_for.get("script", "")))
    if script is None and not named.name:
        raise UsageError(f"{path} names no script", hint="Give it: --script train.py")
    functions, arguments = made_for.get("functions", {}), made_for.get("arguments", [])
    if not isinstance(functions, dict) or not isinstance(arguments, list):
        raise ConfigError(f"{path}: [workload] is damaged: its functions are no table, or its arguments no list")
    as_it_is = made_for.get("unmodified", False)
    if not isinstance(as_it_is, bool):
        raise ConfigError(f"{path}: [workload] is damaged: unmodified is neither true nor false")
    if script is not None and script.name != named.name:  # one of the same name is that script, moved or checked out
        return way_of(Source(script=str(script.resolve())))
    source = Source(
        unmodified=as_it_is,
        script=str((script or named).resolve()),
        arguments=tuple(map(str, arguments)),
        workload=str(made_for.get("workload", "")),
        functions={str(role): str(name) for role, name in functions.items()},
    )
    return source if script is None else way_of(replace(source, unmodified=False))


def _device(made_on: Any, path: Path) -> str:
    """Return the device to name where the search had one named; empty: the best there is."""
    from autotune.machine import unasked

    if not isinstance(made_on, dict):
        return ""
    device = made_on.get("torch_device", "")
    if not isinstance(device, str) or not re.fullmatch(r"([a-z]+(:\d+)?)?", device):
        raise ConfigError(f"{path}: [machine] is damaged: its torch_device names no device")
    if unasked(device, cards="driver" in made_on):
        return ""
    typer.echo(f"measuring on {device}, as the search did; --device names another", err=True)
    return device


def _baseline(made_for: dict[str, Any], path: Path) -> dict[str, Any]:
    """Return what the script ran when the file was made."""
    from autotune.config import Config

    baseline = made_for.get("baseline", {})
    if not isinstance(baseline, dict):
        raise ConfigError(f"{path}: [workload] is damaged: its baseline is no table")
    try:
        return dict(Config(**baseline))
    except ConfigError as error:
        raise ConfigError(f"{path}: [workload] baseline: {error.message}", hint=error.hint) from None
