"""After the search: verify the finalists, say what each option gives, and settle on the two answers."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from autotune.config import Config
from autotune.documents import read_record
from autotune.machine import versions
from autotune.numerics import Numerics, Status
from autotune.options.accumulation import keeps_samples
from autotune.plan import plan_for
from autotune.records import TrialRecord
from autotune.search.aim import FASTEST
from autotune.search.events import Events
from autotune.search.guard import Guard
from autotune.search.loop import Search
from autotune.search.measured import Measured, ranked
from autotune.search.payback import PayBack, pay_back
from autotune.search.specs import Specs
from autotune.search.verification import Verification, attribute, finalists, sentence, verify
from autotune.search.verification.attribution import Attribution, Confirmation
from autotune.search.verification.claim import Claim
from autotune.search.verification.design import DESIGNS, THOROUGH, Design
from autotune.search.verification.statistics import NO_FASTER, Verdict
from autotune.search.verification.windows import Measure
from autotune.search.verification.wording import contribution
from autotune.trials.folder import RunFolder
from autotune.trials.runner import Runner

FIRST_NUMBER = 1000  # records of verification windows are numbered from here, apart from the study's trials
WINDOW_BLOCKS = 8
INTERRUPTED = "the search was interrupted"


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
        told = self.confirmation or claim  # what was measured of this very config, where it was
        status = sentence(told)
        if self.confirmation is None and Config(**claim.candidate) != self.config:
            status = f"what you run today; the best config found beside it: {status}"
        found: dict[str, Any] = {"status": status, "verdict": claim.verdict.value}
        if told.comparison is not None and claim.verdict is not Verdict.INCONCLUSIVE:
            found["speedup"] = round(told.comparison.speedup, 4)
            found["interval"] = [round(told.comparison.lower, 4), round(told.comparison.upper, 4)]
        own = self.confirmation or (claim if Config(**claim.candidate) == self.config else None)
        if own is not None and own.figures is not None:
            found["baseline_samples_per_s"] = float(f"{1 / own.figures.baseline_sample_s:.4g}")
            found["config_samples_per_s"] = float(f"{1 / own.figures.candidate_sample_s:.4g}")
            peaks = zip(("baseline_peak_bytes", "config_peak_bytes"), own.peaks, strict=True)
            found |= {name: peak for name, peak in peaks if peak}
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


@dataclass(frozen=True, kw_only=True)
class Settled:
    """How a search ended."""

    answers: list[Answer]
    """the best config's first; the second keeps the baseline's samples per optimizer step, where the first does not"""
    interrupted: bool = False
    """whether Ctrl-C ended the search or what follows it: what was found until then is among the answers"""


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
) -> Settled:
    """Return the answers: verified where `how` is "full" or "quick".

    No config that fails the numerics guard is among them, verified or not; after an interruption nothing is checked.
    """
    numbers = numbers_from(folder)
    guard = Guard(search.specs, runner, events, numbers, deadline=deadline, clock=clock)
    if interrupted:
        guard.stop(INTERRUPTED)
    finals = _Finals(search, folder, guard, DESIGNS.get(how), seed, deadline, clock)
    verified = how != "none" and not interrupted and search.baseline.usable
    try:
        if verified:
            finals.verify(Windows(search.specs, runner, events, numbers), explain=how == "full")
        # the guard may have a trial to run for them
        answers = finals.answers() or (finals.fallback() if verified else finals.unverified())
    except KeyboardInterrupt:
        guard.stop(INTERRUPTED)
        return Settled(answers=finals.answers() or finals.unverified(), interrupted=True)
    return Settled(answers=answers, interrupted=interrupted)


class _Finals:
    """The verification of one search, as far as it has come."""

    def __init__(
        self,
        search: Search,
        folder: RunFolder,
        guard: Guard,
        design: Design | None,
        seed: int,
        deadline: float,
        clock: Callable[[], float],
    ) -> None:
        self._search, self._folder, self._guard = search, folder, guard
        self._aim, self._baseline = search.aim, search.baseline.config
        self._two_answers = search.two_answers
        self._design, self._seed = design or THOROUGH, seed
        self._timing: dict[str, Any] = {
            "deadline_s": deadline,
            "clock": clock,
            "window_s": _expected_window_s(search.baseline),
        }
        self._found: Verification | None = None
        self._baseline_answers = any(item.config == self._baseline for item in search.eligible())
        """whether the baseline is what the user wishes: it may make other samples per optimizer step"""

    def fallback(self) -> list[Answer]:
        """Return the answers where no finalist could be measured again."""
        return [Answer(config=self._baseline, gains={})] if self._baseline_answers else self.unverified()

    def _keeps(self, config: Config) -> bool:
        """Whether a config may be the second answer."""
        return self._two_answers and keeps_samples(config, self._baseline)

    def unverified(self) -> list[Answer]:
        """Return the answers by the search's own figures."""
        eligible = self._search.eligible()
        same_batch = [item for item in eligible if self._keeps(item.config)]
        found: list[Config] = []
        for among in (eligible, same_batch):
            config = self._guard.first([item.config for item in ranked(among, self._aim)])
            if config is not None and not any(map(self._keeps, found)):
                found.append(config)
        return [self._answer(config) for config in dict.fromkeys(found)]

    def verify(self, measure: Measure, *, explain: bool) -> None:
        """Measure the finalists again and, with `explain`, what each option of a winner gives."""
        chosen = self._finalists()
        if not chosen:
            return
        self._found = verify(
            measure,
            self._baseline,
            chosen,
            keeps_batch=self._keeps,
            aim=self._aim,
            design=self._design,
            seed=self._seed,
            **self._timing,
        )
        self._found = replace(self._found, versions=versions())
        self._found.save(self._folder.verification)
        # what an option gives is told in time: one that saves memory would be taken back
        for claim in self._found.claims() if explain and self._aim == FASTEST else ():
            if claim.verdict is Verdict.FASTER:
                why = self._attribution(measure, claim)
                self._found = replace(self._found, attributions=(*self._found.attributions, why))
                self._found.save(self._folder.verification)

    def answers(self) -> list[Answer]:
        """Return the answers that were verified; none before that."""
        if self._found is None:
            return []
        whys = {Config(**why.winner): why for why in self._found.attributions}
        found = [self._verified(claim, whys.get(Config(**claim.candidate))) for claim in self._found.claims()]
        planned_samples = self._search.specs.prepared.planned_samples
        unique: dict[Config, Answer] = {}
        for answer in found:  # the baseline may be left of both
            unique.setdefault(answer.config, answer)
        return [_with_pay_back(answer, self._folder, planned_samples) for answer in unique.values()]

    def _finalists(self) -> list[Config]:
        seen = [item for measured in self._search.eligible() for item in measured.seen]

        def best(failed: Collection[Config] = ()) -> list[Config]:
            barred, baseline_s = {self._baseline, *failed}, self._search.baseline.sample_s or math.inf
            return finalists(seen, self._keeps, barred=barred, aim=self._aim, baseline_s=baseline_s)

        # where none is left, the ones that failed, without what they fail by
        return self._guard.passing(best) or self._guard.mended(best())

    def _attribution(self, measure: Measure, claim: Claim) -> Attribution:
        space = self._search.space
        return attribute(
            measure,
            self._baseline,
            Config(**claim.candidate),
            canonical=space.canonical,
            legal=space.legal,
            kept=self._asked_for(),
            design=self._design,
            alpha=claim.alpha,
            seed=self._seed + 10,
            **self._timing,
        )

    def _asked_for(self) -> list[str]:
        """Return the options that the user wants otherwise than they are today."""
        wishes, choices = self._search.specs.wishes, self._search.space.choices
        named = [name for name in (*wishes.fixed, *wishes.restricted) if name in choices]
        return [name for name in named if self._baseline.value(name) not in choices[name]]

    def _verified(self, claim: Claim, why: Attribution | None) -> Answer:
        if why is None:
            stays = self._baseline_answers and self._no_better(claim)
            return self._answer(self._baseline if stays else Config(**claim.candidate), claim=claim)
        winner = Config(**claim.candidate)
        gains = {item.option: contribution(item).partition(": ")[2] for item in why.contributions}
        # the attribution leaves out what gives nothing: what is left must pass by itself
        smaller = self._search.space.canonical(Config(**why.config))
        config = self._guard.first([smaller, winner]) or winner
        answer = self._answer(config, claim=claim, gains=gains)
        taken_back = config != winner and why.confirmation is not None and config == Config(**why.confirmation.config)
        return replace(answer, confirmation=why.confirmation) if taken_back else answer

    def _no_better(self, claim: Claim) -> bool:
        """Return whether the config is proven to be no better than what there is, or nothing speaks for it."""
        found = claim.comparison
        if self._aim != FASTEST:
            return found is not None and self._aim.prefers_baseline(found.speedup, *claim.peaks)
        return claim.verdict in NO_FASTER or (claim.verdict is Verdict.INCONCLUSIVE and self._seems_no_faster(claim))

    def _seems_no_faster(self, claim: Claim) -> bool:
        """Return whether a config that nothing is proven of took as long as the baseline, as far as was measured."""
        if claim.comparison is not None:
            return claim.comparison.speedup <= 1
        if (found := claim.figures) is not None:
            return found.candidate_sample_s >= found.baseline_sample_s
        of_search = {item.config: item.sample_s for item in self._search.eligible()}
        own, baseline = of_search.get(Config(**claim.candidate)), self._search.baseline.sample_s
        return own is not None and baseline is not None and own >= baseline

    def _answer(self, config: Config, *, claim: Claim | None = None, gains: Mapping[str, str] | None = None) -> Answer:
        numerics = None if config == self._baseline else self._guard(config)
        return Answer(config=config, claim=claim, gains=gains or {}, numerics=numerics)


def _with_pay_back(answer: Answer, folder: RunFolder, planned_samples: int | None) -> Answer:
    if answer.claim is None or not plan_for(answer.config).compiles:
        return answer
    found = pay_back(answer.claim, lambda number: read_record(folder.record(number)), planned_samples)
    return replace(answer, pay_back=found)


def _expected_window_s(baseline: Measured) -> float:
    """Return the wall time of a window: a trial's without the phases that a window leaves out."""
    records = [record for record in baseline.records if record.measurement is not None]
    return max((record.wall_s - record.phases.cached_s for record in records), default=0.0)
