"""The samplers, kept to the configs of a table."""

from __future__ import annotations

from typing import Any

import numpy as np
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState
from table import TableSpace

from autotune.config import Config
from autotune.options import OPTIONS
from autotune.search.model import candidates as pool
from autotune.search.model.belief import Belief
from autotune.search.model.encoding import Rows
from autotune.search.samplers import distributions, make_sampler
from autotune.search.samplers.distributions import config_from, parameters
from autotune.search.samplers.history import read_history
from autotune.search.samplers.structured import StructuredSampler


def sampler_for(name: str, space: TableSpace, seed: int, trials: int) -> BaseSampler:
    """Return a sampler whose every proposal is a config of the table."""
    if name == "structured":
        return StructuredOverTable(space, seed, trials=trials)
    return Nearest(make_sampler(name, space, seed, trials=trials), space)


class StructuredOverTable(StructuredSampler):
    """The structured sampler with the table as its candidates, instead of the whole space."""

    def _candidates(self, belief: Belief, rng: np.random.Generator) -> Rows:
        assert isinstance(self.space, TableSpace)
        encoding = belief.encoding
        known = np.concatenate([belief.tried, belief.running])
        rows = encoding.rows(sorted(self.space.allowed, key=repr))  # a set has no order to rely on
        return pool.without(encoding, rows, known)


class Nearest(BaseSampler):
    """Moves each proposal of a general sampler to the nearest config of the table that was not measured yet.

    The study is told the parameters of that config, so that the sampler learns from what was really measured.
    """

    def __init__(self, inner: BaseSampler, space: TableSpace) -> None:
        self.inner, self.space = inner, space
        self._flat = distributions(space)

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        return self._flat

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        together = self.inner.infer_relative_search_space(study, trial)
        values = dict(self.inner.sample_relative(study, trial, together))
        for name, distribution in search_space.items():
            if name not in values:
                values[name] = self.inner.sample_independent(study, trial, name, distribution)
        wanted = config_from(self.space, values)
        measured = set(read_history(study, self.space, trial).configs)
        left = sorted(self.space.allowed - measured or self.space.allowed, key=repr)
        return parameters(self.space, min(left, key=lambda config: self._distance(config, wanted)))

    def sample_independent(self, study: Study, trial: FrozenTrial, name: str, distribution: BaseDistribution) -> Any:
        return self.inner.sample_independent(study, trial, name, distribution)

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        self.inner.before_trial(study, trial)

    def after_trial(self, study: Study, trial: FrozenTrial, state: TrialState, values: Any) -> None:
        self.inner.after_trial(study, trial, state, values)

    def _distance(self, one: Config, other: Config) -> float:
        """Return the number of options that differ; an ordered one counts by its distance, 1 from end to end."""
        total = 0.0
        for name, choices in self.space.choices.items():
            here, there = one.value(name), other.value(name)
            if not OPTIONS[name].ordered:
                total += here != there
            elif len(choices) > 1:
                total += abs(_place(choices, here) - _place(choices, there)) / (len(choices) - 1)
        return total


def _place(choices: tuple[Any, ...], value: Any) -> float:
    """Return where a number lies among ordered choices."""
    if value in choices:
        return float(choices.index(value))
    return float(np.interp(float(value), [float(choice) for choice in choices], range(len(choices))))
