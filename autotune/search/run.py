"""A whole search, from the script to the emitted config."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path

import optuna

from autotune.config import Config
from autotune.documents import to_json
from autotune.errors import RunFolderError, UsageError, WorkloadError
from autotune.options import OPTIONS, option_named
from autotune.records import Source
from autotune.search.emit import accumulation_warnings, emit
from autotune.search.events import Events
from autotune.search.finals import Answer, settle
from autotune.search.forecast import Afterwards
from autotune.search.info import check_same, read_info, run_info
from autotune.search.ledger import Ledger, make_room, root_cause
from autotune.search.loop import Search
from autotune.search.measured import Measured
from autotune.search.samplers import SAMPLERS, make_sampler
from autotune.search.samplers.objectives import OBJECTIVES, Memory, Objective
from autotune.search.setup import Prepared, Wishes, prepare, script_hash
from autotune.trials.folder import GONE, RunFolder, write_atomically
from autotune.trials.lock import DeviceLocks, FolderLock
from autotune.trials.quiet import QuietRunner
from autotune.trials.runner import ForkServerRunner, Runner
from autotune.workload.static import look

MEASURED_SHARE = 0.5  # of --timeout, for what trials measure; starting them and the verification need the rest
LEAST_BUDGET_S = 2.0  # of a trial
SLOW_SHARE = 0.25  # of --timeout, for what a single trial of slow steps measures
LEAST_TIMEOUT_S = 60.0  # of a trial; a shorter --timeout lets the one that runs come to its end
VERIFICATION_SHARE = 0.35  # of --timeout, kept for verification and attribution
HOW_TO_VERIFY = ("full", "quick", "none")
SCRIPT_CHANGED = "The script was changed while the search ran: later trials trained what it was then. Search again."


@dataclass(frozen=True, kw_only=True)
class Result:
    """What a search found."""

    folder: RunFolder
    prepared: Prepared
    search: Search
    answers: list[Answer]
    """the best config's first; the second keeps the baseline's samples per optimizer step, where the first does not"""
    interrupted: bool = False

    @property
    def best(self) -> Config | None:
        return self.answers[0].config if self.answers else None


def search_workload(
    source: Source,
    folder: RunFolder,
    wishes: Wishes,
    events: Events,
    *,
    verify: str = "full",
    resume: bool = False,
    force: bool = False,
    storage: str = "",
    command: Sequence[str] = (),
    runner: Runner | None = None,
) -> Result:
    """Search, verify, and write everything into the run folder. Ctrl-C ends it cleanly with what was found.

    Raises:
        UsageError: an unknown name, a folder that cannot be used, a resume that does not fit.
        DeviceBusy: another search measures on the device.
        WorkloadError: the workload cannot run as it is.
    """
    _check_names(wishes, verify)
    if resume and force:
        raise UsageError(
            "--resume goes on with the search in the folder, --force replaces it", hint="Give one of them."
        )
    wishes = _in_time(wishes)
    if source.script:
        check_script(source)
    locks = DeviceLocks(
        Path(source.script).name or "a workload of Python's", events.note, wait=wishes.wait, enabled=wishes.lock
    )
    own_folder = FolderLock(folder.path)
    own_runner = runner is None
    try:
        if runner is None:
            locks.take(wishes.device)  # before anything of an earlier search is replaced
        _claim_folder(folder, own_folder, resume=resume, force=force)
        earlier = read_info(folder) if resume else None
        if earlier is not None:
            wishes = replace(wishes, space_trials=earlier.space_trials or earlier.trials, limits=earlier.limits)
        began = time.monotonic()
        runner = runner or ForkServerRunner(folder.server_log, sandbox=wishes.sandbox)
        if wishes.wait_idle_s is not None:
            runner = QuietRunner(runner, wishes.wait_idle_s, events.note)
        prepared = prepare(source, wishes, runner, folder, events.progress, locks if own_runner else None, earlier)
        info = run_info(prepared, wishes, command)
        if earlier is not None:
            check_same(earlier, info)
            info = replace(info, study=earlier.study, started_at=earlier.started_at)
        elif storage:  # the folder's own is new
            make_room(storage, info.study, force=force)
        write_atomically(folder.run, to_json(info))
        sampler = make_sampler(
            wishes.sampler,
            prepared.space,
            wishes.seed,
            trials=wishes.trials,
            timed=wishes.timeout_s is not None,
            objective=_objective(wishes),
        )
        ledger = Ledger(prepared.space, sampler, storage or f"sqlite:///{folder.study.resolve()}", info.study)
        end = math.inf if wishes.timeout_s is None else began + wishes.timeout_s
        share = 0.0 if verify == "none" else VERIFICATION_SHARE
        deadline = math.inf if wishes.timeout_s is None else began + (1 - share) * wishes.timeout_s
        search = Search(prepared, wishes, ledger, folder, runner, events, deadline=deadline)
        after = Afterwards(how=verify, two_answers=search.two_answers, guarded=not source.unmodified)
        events.begin(_title(prepared, wishes, verify), wishes.trials, wishes.timeout_s, after)
        if resume:
            events.note(f"resumed with {search.resume()} trials measured before")
        return _search_and_settle(search, prepared, folder, runner, events, wishes, verify, end)
    except optuna.exceptions.StorageInternalError as error:
        there = folder.study.exists() or storage
        raise RunFolderError(
            f"the study of {folder.path} cannot be written: {root_cause(error)}",
            hint="What was measured is kept; --resume goes on with it." if there else GONE,
        ) from error
    finally:
        with ExitStack() as ending:  # all of them, whichever fails: a terminal that was closed, say
            ending.callback(locks.release)
            ending.callback(own_folder.release)
            if own_runner and runner is not None:
                ending.callback(runner.close)
            ending.callback(events.finished)


def check_script(source: Source) -> None:
    """Look at the source, without running it, for what would go wrong in every trial.

    Raises:
        UsageError: no such script.
        WorkloadError: importing it would start a training.
    """
    script = Path(source.script)
    seen = look(script)
    if seen.trains is not None and not source.unmodified:
        raise WorkloadError(
            f"{script}, line {seen.trains.line} trains when the script is imported: {seen.trains.text}",
            hint="Put it under: if __name__ == '__main__':  -- loader workers and trials import the script.",
        )


def _search_and_settle(
    search: Search,
    prepared: Prepared,
    folder: RunFolder,
    runner: Runner,
    events: Events,
    wishes: Wishes,
    verify: str,
    end: float,
) -> Result:
    interrupted = False
    try:
        search.run()
        events.note(f"search ended: {search.stopped_because}")
    except KeyboardInterrupt:
        interrupted = True
        if not search.ranking():
            raise
    settled = settle(
        search, folder, runner, events, how=verify, seed=wishes.seed, deadline=end, interrupted=interrupted
    )
    changed = script_hash(prepared.source) != prepared.script_hash
    if changed:
        events.note(SCRIPT_CHANGED)
    _write_answers(folder, settled.answers, search, prepared, [SCRIPT_CHANGED] if changed else [])
    return Result(
        folder=folder,
        prepared=prepared,
        search=search,
        answers=settled.answers,
        interrupted=settled.interrupted,
    )


def _write_answers(
    folder: RunFolder, answers: list[Answer], search: Search, prepared: Prepared, notes: list[str]
) -> None:
    for path, answer in zip_longest((folder.best, folder.best_same_batch), answers):
        if answer is None:
            path.unlink(missing_ok=True)  # an answer of the search before it was resumed
            continue
        chosen = search.measured.get(answer.config, Measured(answer.config))
        emit(
            path,
            chosen,
            search.baseline,
            prepared,
            gains=answer.gains,
            notes=[*notes, *([] if answer.pay_back is None else [answer.pay_back.sentence])],
            verified=answer.figures(),
            numerics=answer.numerics,
        )


def _objective(wishes: Wishes) -> Objective:
    if wishes.objective == "memory":
        return Memory(keep=wishes.keep)
    return OBJECTIVES[wishes.objective]()


def _check_names(wishes: Wishes, verify: str) -> None:
    for name in wishes.allowed:
        option_named(name)
    for what, name, known in (
        ("sampler", wishes.sampler, SAMPLERS),
        ("objective", wishes.objective, OBJECTIVES),
        ("--verify", verify, HOW_TO_VERIFY),
    ):
        if name not in known:
            raise UsageError(f"unknown {what}: {name}", hint=f"It is one of: {', '.join(known)}")


def _claim_folder(folder: RunFolder, lock: FolderLock, *, resume: bool, force: bool) -> None:
    if folder.exists and not resume and not force:
        raise RunFolderError(
            f"{folder.path} holds an earlier search",
            hint="Go on with it: --resume. Replace it: --force. Keep both: --out OTHER_FOLDER.",
        )
    if resume and not folder.exists:
        raise RunFolderError(f"there is no search to resume in {folder.path}")
    earlier = folder.exists  # else what lies there is somebody's own
    folder.create()
    lock.acquire()
    if earlier:
        folder.sweep()
        if force:
            folder.clear()
            folder.create()


def _in_time(wishes: Wishes) -> Wishes:
    """Return the wishes with shorter trials: in a short time many rough ones find more than a few precise ones."""
    if wishes.timeout_s is None:
        return wishes
    budget_s = min(wishes.trial_budget_s, max(LEAST_BUDGET_S, MEASURED_SHARE * wishes.timeout_s / wishes.trials))
    return replace(
        wishes,
        trial_budget_s=budget_s,
        trial_budget_max_s=min(wishes.trial_budget_max_s, max(budget_s, SLOW_SHARE * wishes.timeout_s)),
        trial_timeout_s=min(wishes.trial_timeout_s, max(LEAST_TIMEOUT_S, wishes.timeout_s)),
    )


def _title(prepared: Prepared, wishes: Wishes, verify: str) -> list[str]:
    facts, space = prepared.facts, prepared.space
    tuned = [name for name, values in space.choices.items() if len(values) > 1]
    lines = [
        f"{facts.model} with {facts.parameters:,} parameters on {facts.device_name}, {facts.optimizer}",
        f"step: {facts.step}; batch: {facts.batch_structure}",
        f"searching {', '.join(tuned) or 'nothing'}: {space.size():,} combinations, {wishes.trials} trials",
    ]
    # what a script gives its own loader stays with it
    named = wishes.baseline if facts.script is not None else facts.baseline
    for name, value in named.items():
        if name in space.reasons and name not in space.choices and value != OPTIONS[name].default:
            lines.append(f"the baseline's {name} = {value} is left out: {space.reasons[name]}")
    if facts.script is not None:
        lines.append("the script has no workload: it is run as it is in each trial, the config applied from outside")
    if wishes.keeps_batch:
        why = "--keep-batch" if wishes.keep_batch else "--objective latency"
        lines.append(f"{why}: the batch stays at {space.baseline.value('batch_size')}, so there is one answer")
    if wishes.effective_batch is not None:
        lines.append(
            f"every config makes an optimizer step of {wishes.effective_batch} samples, in one batch or several"
        )
        lines += accumulation_warnings(facts)
    if prepared.planned_samples is not None:
        lines.append(
            f"times include the start, compiling among it, spread over the {prepared.planned_samples:,} samples planned"
        )
    for name in sorted(wishes.allowed & set(space.reasons)):
        lines.append(f"{name} was allowed and is left out: {space.reasons[name]}")
    if facts.default_optimizer:
        lines.append("the script names no optimizer: AdamW was taken")
    if verify != "none":
        lines.append(f"then the winner is verified against the baseline ({verify})")
    return lines
