"""`autotune verify`: the baseline against one config, outside a search."""

from __future__ import annotations

import math
import time
from dataclasses import replace

from autotune.config import Config
from autotune.errors import UsageError
from autotune.machine import versions
from autotune.numerics import Numerics
from autotune.options.accumulation import samples_per_update
from autotune.options.space import Space
from autotune.records import Source
from autotune.search.events import Events
from autotune.search.finals import Windows, numbers_from
from autotune.search.guard import Guard
from autotune.search.setup import Wishes, prepare
from autotune.search.specs import Specs
from autotune.search.verification import Claim, Verification
from autotune.search.verification.choice import Choice
from autotune.search.verification.claim import claim
from autotune.search.verification.design import DESIGNS
from autotune.search.verification.windows import Bench
from autotune.trials.folder import RunFolder
from autotune.trials.lock import DeviceLocks
from autotune.trials.runner import Runner


def verify_config(
    source: Source,
    config: Config | None,
    folder: RunFolder,
    wishes: Wishes,
    runner: Runner,
    events: Events,
    *,
    how: str = "full",
    least: float | None = None,
    locks: DeviceLocks | None = None,
) -> tuple[Claim, Numerics | None]:
    """Measure the baseline and `config` in turn, in fresh processes, and return what may be said.

    Beside the claim stands what the numerics guard says of the config; None for the self-test.

    Args:
        config: None is the self-test: the baseline against itself.
        least: speed-up that will be asked of the claim.
        locks: of the caller, who releases them.

    Raises:
        DeviceBusy: another search measures on the device.
        UsageError: the config is the baseline, or sets what does not apply here.
        WorkloadError: the workload cannot run as it is.
    """
    if locks is not None:
        locks.take(wishes.device)
    began = time.monotonic()  # the wait for the device is not counted
    if config is not None and config.value("accumulation") != 1:
        wishes = replace(wishes, effective_batch=samples_per_update(config), batch_step=1)
    prepared = prepare(source, wishes, runner, folder, events.progress, locks)
    baseline = prepared.space.baseline
    candidate = baseline if config is None else prepared.space.canonical(config)
    if config is not None:
        _check_applies(config, prepared.space)
        if candidate == baseline:
            raise UsageError(
                "the config is what the baseline already runs, so there is nothing to compare",
                hint="Another config of its run: autotune show RUN TRIAL --out mine.toml, and verify that file.",
            )
    refusal = prepared.space.legal(candidate)
    if refusal is not None:
        raise UsageError(f"the config, with batch_size = {candidate.value('batch_size')}, cannot run here: {refusal}")
    design = DESIGNS[how]
    events.begin(["the baseline against " + ("itself" if config is None else "the config")], 2 * design.looks[-1], None)
    deadline = math.inf if wishes.timeout_s is None else began + wishes.timeout_s
    specs, numbers = Specs(prepared, wishes, folder), numbers_from(folder)
    guard = Guard(specs, runner, events, numbers, deadline=deadline)
    numerics = None if config is None else guard(candidate)
    bench = Bench(Windows(specs, runner, events, numbers), deadline_s=deadline)
    found = claim(bench, baseline, candidate, design, alpha=design.alpha, seed=wishes.seed, least=least)
    result = Verification(design=design, choice=Choice(ranking=(), seed=wishes.seed), best=found, versions=versions())
    result.save(folder.verification)
    return found, numerics


def _check_applies(config: Config, space: Space) -> None:
    known = {*space.choices, *space.decided}
    extra = [name for name in config if name not in known and config[name] != Config().value(name)]
    if extra:
        why = "; ".join(f"{name}: {space.reasons.get(name, 'not here')}" for name in extra)
        raise UsageError(f"the config sets what does not apply here: {why}")
