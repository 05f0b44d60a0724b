"""After the search: verify the finalists, say what each option gives, and settle on the two answers."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from autotune.config import Config
from autotune.documents import read_record
from autotune.machine import versions
from autotune.numerics import Numerics, Status
from autotune.options.accumulation import samples_per_update
from autotune.plan import plan_for
from autotune.records import TrialRecord
from autotune.search.events import Events
from autotune.search.guard import Guard
from autotune.search.loop import Search
from autotune.search.measured import Measured
from autotune.search.payback import PayBack, pay_back
from autotune.search.specs import Specs
from autotune.search.verification import Verification, attribute, finalists, sentence, verify
from autotune.search.verification.attribution import Confirmation
from autotune.search.verification.claim import Claim
from autotune.search.verification.design import DESIGNS
from autotune.search.verification.statistics import Verdict
from autotune.search.verification.wording import contribution
from autotune.trials.folder import RunFolder
from autotune.trials.runner import Runner

FIRST_NUMBER = 1000  # records of verification windows are numbered from here, apart from the study's trials
WINDOW_BLOCKS = 8


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One config to hand out."""

    config: Config
    claim: Claim | None = None
    """None: not verified"""
    confirmation: Confirmation | None = None
    """of this config, where options that gave nothing were taken back after the claim"""
    gains: Mapping[str, str]
    """what each option gives, in words"""
    numerics: Numerics | None = None
    """what the guard says of its maths; None: it is the baseline"""

    pay_back: PayBack | None = None
    """when compiling has earned back its start; None: nothing is compiled, or no speed-up is proven"""

    @property
    def sentence(self) -> str:
        return sentence(self.claim) if self.claim is not None else ""

    @property
    def told(self) -> str:
        """The sentence, and what was checked of the maths where that is no plain pass."""
        open_question = self.numerics is not None and self.numerics.status is Status.NOT_CHECKED
        return "; ".join(
            filter(None, (self.sentence, self.numerics.sentence if open_question and self.numerics else ""))
        )

    def figures(self) -> dict[str, Any]:
        """Return what the emitted file says of the verification."""
        claim = self.claim
        if claim is None:
            return {}
        found: dict[str, Any] = {"status": self.sentence, "verdict": claim.verdict.value}
        if claim.comparison is not None and claim.verdict is not Verdict.INCONCLUSIVE:
            found["speedup"] = round(claim.comparison.speedup, 4)
            found["interval"] = [round(claim.comparison.lower, 4), round(claim.comparison.upper, 4)]
        own = self.confirmation or (claim if Config(**claim.candidate) == self.config else None)
        if own is not None and own.figures is not None:
            found["baseline_samples_per_s"] = float(f"{1 / own.figures.baseline_sample_s:.4g}")
            found["config_samples_per_s"] = float(f"{1 / own.figures.candidate_sample_s:.4g}")
        return found


def numbers_from(folder: RunFolder) -> Iterator[int]:
    """Return numbers for the trials after the search that no record has yet."""
    taken = [record.number for record in folder.records() if record.number >= FIRST_NUMBER]
    return itertools.count(max(taken, default=FIRST_NUMBER - 1) + 1)


class Windows:
    """Measures one window after the other, each in a fresh process and by a fixed plan."""

    def __init__(self, specs: Specs, runner: Runner, events: Events, numbers: Iterator[int]) -> None:
        self._specs, self._runner, self._events, self._numbers = specs, runner, events, numbers

    def __call__(self, config: Config, label: str) -> TrialRecord:
        number = next(self._numbers)
        spec = self._specs.make(number, config, kind="verification", fixed_blocks=WINDOW_BLOCKS)
        baseline = self._specs.prepared.space.baseline
        self._events.trial_started(number, label, config, config.difference(baseline))
        record = self._runner.run(spec, self._specs.folder.log(number), self._events.progress)
        self._specs.learn(record, config)
        self._events.trial_ended(record, label)
        return record


def settle(
    search: Search,
    folder: RunFolder,
    runner: Runner,
    events: Events,
    *,
    how: str,
    seed: int,
    deadline: float = math.inf,
    clock: Callable[[], float] = time.monotonic,
    interrupted: bool = False,
) -> tuple[list[Answer], Verification | None]:
    """Return the answers, the best config's first: verified where `how` is "full" or "quick".

    No config that fails the numerics guard is among them, verified or not; after an interruption nothing is checked.
    """
    ranking = search.ranking()
    baseline = search.baseline
    keeps = _keeps_batch(baseline.config) if search.two_answers else lambda config: False
    numbers = numbers_from(folder)
    guard = Guard(search.specs, runner, events, numbers, deadline=deadline, clock=clock)
    if interrupted:
        guard.stop("the search was interrupted")
    if how == "none" or not baseline.usable:
        order = [item.config for item in ranking]
        best = [guard.first(order), guard.first([config for config in order if keeps(config)])]
        distinct = dict.fromkeys(config for config in best if config is not None)
        return [_answer(config, guard, baseline.config) for config in distinct], None
    measure = Windows(search.specs, runner, events, numbers)
    window_s = _expected_window_s(baseline)
    seen = [item for measured in ranking for item in measured.seen]
    chosen = guard.passing(lambda failed: finalists(seen, keeps, barred={baseline.config, *failed}))
    # where none is left, the ones that failed, without what they fail by
    chosen = chosen or guard.mended(finalists(seen, keeps, barred={baseline.config}))
    if not chosen:
        return [Answer(config=baseline.config, gains={})], None
    found = verify(
        measure,
        baseline.config,
        chosen,
        keeps_batch=keeps,
        design=DESIGNS[how],
        seed=seed,
        deadline_s=deadline,
        clock=clock,
        window_s=window_s,
    )
    found.save(folder.verification)
    answers, attributions = [], []
    for claim in found.claims():
        winner = Config(**claim.candidate)
        if claim.verdict is not Verdict.FASTER or how == "quick":
            answers.append(_answer(_proven(claim, baseline.config), guard, baseline.config, claim=claim))
            continue
        why = attribute(
            measure,
            baseline.config,
            winner,
            canonical=search.space.canonical,
            legal=search.space.legal,
            design=DESIGNS[how],
            seed=seed + 10,
            deadline_s=deadline,
            clock=clock,
            window_s=window_s,
        )
        attributions.append(why)
        gains = {item.option: contribution(item).partition(": ")[2] for item in why.contributions}
        # the attribution leaves out what gives nothing: what is left must pass by itself
        config = guard.first([search.space.canonical(Config(**why.config)), winner])
        answer = _answer(config or winner, guard, baseline.config, claim=claim, gains=gains)
        smaller = why.confirmation
        if smaller is not None and answer.config != winner and answer.config == Config(**smaller.config):
            answer = replace(answer, confirmation=smaller)
        answers.append(answer)
    found = replace(found, attributions=tuple(attributions), versions=versions())
    found.save(folder.verification)
    answers = [_with_pay_back(answer, folder, search.specs.prepared.planned_samples) for answer in answers]
    return answers or [Answer(config=baseline.config, gains={})], found


def _answer(
    config: Config,
    guard: Guard,
    baseline: Config,
    *,
    claim: Claim | None = None,
    gains: Mapping[str, str] | None = None,
) -> Answer:
    numerics = None if config == baseline else guard(config)
    return Answer(config=config, claim=claim, gains=gains or {}, numerics=numerics)


def _with_pay_back(answer: Answer, folder: RunFolder, planned_samples: int | None) -> Answer:
    if answer.claim is None or not plan_for(answer.config).compiles:
        return answer
    found = pay_back(answer.claim, lambda number: read_record(folder.record(number)), planned_samples)
    return replace(answer, pay_back=found)


def _proven(claim: Claim, baseline: Config) -> Config:
    """Return the config to hand out: never one that is proven to be slower, or no faster, than what there is."""
    settled = claim.verdict in (Verdict.SLOWER, Verdict.SAME)
    return baseline if settled else Config(**claim.candidate)


def _keeps_batch(baseline: Config) -> Callable[[Config], bool]:
    samples = samples_per_update(baseline)
    return lambda config: samples_per_update(config) == samples


def _expected_window_s(baseline: Measured) -> float:
    """Return the wall time of a window: a trial's without the phases that a window leaves out."""
    records = [record for record in baseline.records if record.measurement is not None]
    return max((record.wall_s - record.phases.cached_s for record in records), default=0.0)
