"""After the search: verify the finalists, say what each option gives, and settle on the two answers."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from autotune.config import Config
from autotune.machine import versions
from autotune.records import TrialRecord
from autotune.search.events import Events
from autotune.search.loop import Measured, Search
from autotune.search.specs import Specs
from autotune.search.verification import QUICK, THOROUGH, Verification, attribute, finalists, sentence, verify
from autotune.search.verification.claim import Claim
from autotune.search.verification.statistics import Verdict
from autotune.search.verification.wording import contribution
from autotune.trials.folder import RunFolder
from autotune.trials.runner import Runner

FIRST_NUMBER = 1000  # records of verification windows are numbered from here, apart from the study's trials
WINDOW_BLOCKS = 8
DESIGNS = {"full": THOROUGH, "quick": QUICK}


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One config to hand out."""

    config: Config
    claim: Claim | None = None
    """None: not verified"""
    gains: Mapping[str, str]
    """what each option gives, in words"""

    @property
    def sentence(self) -> str:
        return sentence(self.claim) if self.claim is not None else ""

    def figures(self) -> dict[str, Any]:
        """Return what the emitted file says of the verification."""
        claim = self.claim
        if claim is None:
            return {}
        found: dict[str, Any] = {"status": self.sentence, "verdict": claim.verdict.value}
        if claim.comparison is not None and claim.verdict is not Verdict.INCONCLUSIVE:
            found["speedup"] = round(claim.comparison.speedup, 4)
            found["interval"] = [round(claim.comparison.lower, 4), round(claim.comparison.upper, 4)]
        return found


class Windows:
    """Measures one window after the other, each in a fresh process and by a fixed plan."""

    def __init__(self, specs: Specs, runner: Runner, events: Events) -> None:
        self._specs, self._runner, self._events = specs, runner, events
        taken = [record.number for record in specs.folder.records() if record.number >= FIRST_NUMBER]
        self._next = max(taken, default=FIRST_NUMBER - 1) + 1

    def __call__(self, config: Config, label: str) -> TrialRecord:
        number, self._next = self._next, self._next + 1
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
) -> tuple[list[Answer], Verification | None]:
    """Return the answers, the best config's first: verified where `how` is "full" or "quick"."""
    ranking = search.ranking()
    baseline = search.baseline
    keeps = _keeps_batch(baseline.config)
    if how == "none" or not baseline.usable:
        best = [item.config for item in ranking[:1]]
        keeping = [item.config for item in ranking if keeps(item.config)][:1]
        return [Answer(config=config, gains={}) for config in dict.fromkeys([*best, *keeping])], None
    measure = Windows(search.specs, runner, events)
    window_s = _expected_window_s(baseline)
    seen = [item for measured in ranking for item in measured.seen]
    chosen = finalists(seen, keeps, barred={baseline.config})
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
            answers.append(Answer(config=_proven(claim, baseline.config), claim=claim, gains={}))
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
        answers.append(Answer(config=search.space.canonical(Config(**why.config)), claim=claim, gains=gains))
    found = replace(found, attributions=tuple(attributions), versions=versions())
    found.save(folder.verification)
    return answers or [Answer(config=baseline.config, gains={})], found


def _proven(claim: Claim, baseline: Config) -> Config:
    """Return the config to hand out: never one that is proven to be slower, or no faster, than what there is."""
    settled = claim.verdict in (Verdict.SLOWER, Verdict.SAME)
    return baseline if settled else Config(**claim.candidate)


def _keeps_batch(baseline: Config) -> Callable[[Config], bool]:
    size = baseline.value("batch_size")
    return lambda config: config.value("batch_size") == size


def _expected_window_s(baseline: Measured) -> float:
    """Return the wall time of a window: a trial's without the phases that a window leaves out."""
    records = [record for record in baseline.records if record.measurement is not None]
    return max((record.wall_s - record.phases.cached_s for record in records), default=0.0)
