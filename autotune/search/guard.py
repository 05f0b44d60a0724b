"""The numerics guard's place in a search: every config that may win is first held against the baseline.

One trial answers for all configs that differ from the baseline in the same values of what a step computes.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterator, Sequence

from autotune.config import Config
from autotune.numerics import Numerics, Status, Task, not_checked
from autotune.options import OPTIONS, Value
from autotune.options.space import touching_maths
from autotune.records import Outcome, TrialRecord
from autotune.search.events import Events
from autotune.search.specs import Specs
from autotune.trials.runner import Runner
from autotune.words.text import values_text


class Guard:
    """Answers for one config after the other; asks a trial where it does not know yet."""

    def __init__(
        self,
        specs: Specs,
        runner: Runner,
        events: Events,
        numbers: Iterator[int],
        *,
        deadline: float = math.inf,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`numbers`: of the trials to come; `deadline`: reading of `clock` after which no trial starts."""
        self._specs, self._runner, self._events, self._numbers = specs, runner, events, numbers
        self._deadline, self._clock = deadline, clock
        self._known: dict[Config, Numerics] = {}
        self._stopped = ""
        if specs.prepared.source.unmodified:
            self.stop("the script runs as it is, so that its step cannot be repeated on the same samples")

    def stop(self, reason: str) -> None:
        """Start no trial from now on, for that reason."""
        self._stopped = reason

    def __call__(self, config: Config) -> Numerics:
        """Return what may be said of `config`; never raises for what the workload cannot do."""
        changed = touching_maths(self._baseline, config)
        if not changed:
            return Numerics(status=Status.UNTOUCHED)
        key = Config(**changed)
        if key not in self._known:
            self._known[key] = self._ask(self._baseline.replace(**changed))
        return self._known[key]

    def first(self, ranked: Sequence[Config]) -> Config | None:
        """Return the first config that may win."""
        return next((config for config in ranked if not self(config).demotes), None)

    def passing(self, choose: Callable[[Collection[Config]], Sequence[Config]]) -> list[Config]:
        """Return the configs that `choose` picks where those that fail are barred, others in their place."""
        barred: set[Config] = set()
        while True:
            chosen = choose(barred)
            failed = {config for config in chosen if self(config).demotes}
            if not failed:
                return list(chosen)
            barred |= failed

    def mended(self, failed: Sequence[Config]) -> list[Config]:
        """Return `failed` with what they fail by set back to the baseline's; those that pass so, each once.

        They were never measured: only for a verification, which measures them.
        """
        space = self._specs.prepared.space
        found = dict.fromkeys(space.canonical(config.replace(**self._set_back(config))) for config in failed)
        return [
            config
            for config in found
            if config != space.baseline and space.legal(config) is None and not self(config).demotes
        ]

    def _set_back(self, config: Config) -> dict[str, Value]:
        claim = next((found.claim for found in self(config).comparisons if not found.passed), None)
        changed = touching_maths(self._baseline, config)
        return {
            name: self._baseline.value(name) for name in changed if claim is None or OPTIONS[name].claim.value == claim
        }

    @property
    def _baseline(self) -> Config:
        return self._specs.prepared.space.baseline

    def _ask(self, config: Config) -> Numerics:
        if self._stopped or self._clock() >= self._deadline:
            found = not_checked(self._stopped or "no time was left")
        else:
            found, outcome = self._try(config, Task())
            if outcome is Outcome.OUT_OF_MEMORY and self._clock() < self._deadline:
                found, _ = self._try(config, Task(float64=False))
        told = values_text(config.difference(self._baseline))
        if found.status is Status.FAILED:
            self._events.note(f"{told} is demoted: {found.sentence}")
        elif found.status is Status.NOT_CHECKED:
            self._events.note(f"{told}: {found.sentence}")
        return found

    def _try(self, config: Config, task: Task) -> tuple[Numerics, Outcome]:
        number = next(self._numbers)
        spec = self._specs.make(number, config, kind="numerics", numerics=task)
        self._events.trial_started(number, "numerics", config, config.difference(self._baseline))
        record = self._runner.run(spec, self._specs.folder.log(number), self._events.progress)
        found = _answer(record)
        self._events.trial_ended(record, found.short)
        return found, record.outcome


def _answer(record: TrialRecord) -> Numerics:
    if record.numerics is not None:
        return record.numerics
    reason = record.failure.reason if record.failure is not None else record.outcome.value.replace("_", " ")
    return not_checked(f"its trial ended early ({reason}); `autotune show RUN {record.number}` has more")
