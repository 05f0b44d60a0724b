"""`autotune search`: the main job."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autotune.cli import flags
from autotune.cli.naming import Named, names_workload
from autotune.cli.output import WRITES_FAILED, lost_output, outlive_output
from autotune.cli.parsing import parse_allowed, parse_baseline, parse_choices, parse_names, parse_values, source_of
from autotune.cli.report import write_report
from autotune.errors import RunFolderError, WorkloadError
from autotune.sizes import parse_share, parse_size

if TYPE_CHECKING:
    from rich.console import Console

    from autotune.trials.folder import RunFolder


@names_workload
def search(
    script: flags.Script,
    arguments: flags.Arguments = None,
    trials: Annotated[int, typer.Option(min=1, help="Trials of the search, the baseline's two among them.")] = 24,
    timeout: Annotated[
        float | None,
        typer.Option(
            min=1, help="Seconds in all, verification included; what runs then comes to its end.", show_default=False
        ),
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Steps (of your baseline) that you will train: the time to start and to compile counts.",
            show_default=False,
        ),
    ] = None,
    epochs: Annotated[float | None, typer.Option(min=0.001, help="The same in epochs.", show_default=False)] = None,
    verify: Annotated[str, typer.Option(help="How the winner is proven: full, quick or none.")] = "full",
    sampler: Annotated[str, typer.Option(help="structured, tpe, gp, random or grid.")] = "structured",
    objective: Annotated[
        str, typer.Option(help="throughput, memory, pareto, or latency of the baseline's batch.")
    ] = "throughput",
    keep: Annotated[float, typer.Option(min=0.01, max=1, help="Throughput to keep under --objective memory.")] = 0.95,
    seed: Annotated[int, typer.Option(help="Same seed, same proposals.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Run folder; default: results/SCRIPT/.", show_default=False)] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the search in the run folder.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the search in the run folder.")] = False,
    storage: Annotated[str, typer.Option(help="An Optuna storage; default: study.db in the run folder.")] = "",
    *,
    named: Named,
    baseline: flags.Baseline = None,
    deterministic: flags.Deterministic = False,
    device: flags.DeviceName = "",
    fix: flags.Fix = None,
    choices: flags.Choices = None,
    exclude: flags.Exclude = None,
    allow: flags.Allow = None,
    max_batch: flags.MaxBatch = None,
    batch_step: flags.BatchStep = 8,
    effective_batch: flags.EffectiveBatch = None,
    keep_batch: flags.KeepBatch = False,
    memory_limit: flags.MemoryLimit = None,
    host_memory_limit: flags.HostMemoryLimit = None,
    headroom: flags.Headroom = "5%",
    trial_timeout: flags.TrialTimeout = 300.0,
    trial_budget: Annotated[
        float,
        typer.Option(
            min=1,
            help="Measured seconds that one trial may take; fewer where --timeout is short.",
            rich_help_panel=flags.LIMITS,
        ),
    ] = 15.0,
    no_sandbox: flags.NoSandbox = False,
    quick: Annotated[bool, typer.Option("--quick", help="Shorter trials: within-run precision 5 %, not 3 %.")] = False,
    wait: flags.Wait = False,
    no_lock: flags.NoLock = False,
    wait_idle: flags.WaitIdle = None,
) -> None:
    """Search the fastest settings of SCRIPT within the memory it has, and write best.toml.

    The script provides a Workload, or functions build_model() and build_dataset(); one without is run as it is in each
    trial, and its steps are found. Arguments after -- are its own.
    """
    from rich.console import Console

    from autotune.search.run import search_workload
    from autotune.search.setup import Wishes
    from autotune.trials.folder import RunFolder

    wishes = Wishes(
        device=device,
        baseline=parse_baseline(baseline, deterministic),
        fixed=parse_values(fix or ()),
        restricted=parse_choices(choices or ()),
        excluded=parse_names(exclude or ()),
        allowed=parse_allowed(allow or ()),
        max_batch=max_batch,
        batch_step=batch_step,
        effective_batch=effective_batch,
        keep_batch=keep_batch,
        memory_limit_bytes=parse_size(memory_limit, "--memory-limit"),
        host_memory_limit_bytes=parse_size(host_memory_limit, "--host-memory-limit"),
        headroom=parse_share(headroom, "--headroom"),
        trial_timeout_s=trial_timeout,
        trial_budget_s=trial_budget,
        trials=trials,
        timeout_s=timeout,
        steps=steps,
        epochs=epochs,
        seed=seed,
        sampler=sampler,
        objective=objective,
        keep=keep,
        target=0.05 if quick else 0.03,
        lock=not no_lock,
        sandbox=not no_sandbox,
        wait=wait,
        wait_idle_s=wait_idle,
    )
    from autotune.report.evidence import gather
    from autotune.report.run import read_run
    from autotune.report.summary import print_summary
    from autotune.report.view import make_view

    console = Console()
    end_like_ctrl_c()
    outlive_output()
    folder = RunFolder(out or Path("results") / script.stem)
    with reported(folder, console):
        result = search_workload(
            source_of(script, arguments, named),
            folder,
            wishes,
            make_view(console),
            verify=verify,
            resume=resume,
            force=force,
            storage=storage,
            command=sys.argv,
        )
    print_summary(console, gather(read_run(result.folder)), interrupted=result.interrupted)
    print_report(folder, console)
    if (lost := lost_output()) is not None:
        print(f"{WRITES_FAILED} ({lost.strerror}); the search went on, see {folder.path}", file=sys.stderr)
        if not isinstance(lost, BrokenPipeError):  # its reader had seen enough
            raise typer.Exit(1)
    if result.interrupted:
        raise typer.Exit(130)


@contextmanager
def reported(folder: RunFolder, console: Console) -> Iterator[None]:
    """Write report.html of a search that fails, too: what was measured until then is worth looking at."""
    began = time.time()
    try:
        yield
    except (WorkloadError, KeyboardInterrupt):
        # a search that was refused has written nothing, and an earlier one in that folder has its page
        if folder.run.exists() and folder.run.stat().st_mtime >= began:
            print_report(folder, console)
        raise


def print_report(folder: RunFolder, console: Console) -> None:
    """Write report.html and say where it is; a search that has ended well does not fail for want of it."""
    from autotune.words.text import plain

    try:
        console.print(plain(f"{'report':<8} {write_report(folder)}"), soft_wrap=True)
    except RunFolderError as error:
        console.print(plain(f"no report.html: {error.message}", "yellow"), soft_wrap=True)


def end_like_ctrl_c() -> None:
    """Let a terminated search and a closed terminal end as cleanly as Ctrl-C does; under nohup it goes on.

    So do the signals by which batch systems announce that a job's time runs out.
    """

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, interrupt)
