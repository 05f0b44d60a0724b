"""Samplers that keep nothing in memory: what they propose follows from the seed and the study's trials.

So a resumed search proposes what the undisturbed one would have.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Any

import numpy as np
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler, RandomSampler
from optuna.study import Study
from optuna.trial import FrozenTrial

from autotune.config import Config
from autotune.options.space import Space
from autotune.search.samplers.distributions import config_from, distributions, parameters
from autotune.search.samplers.history import progress, read_history


class Reseeded(BaseSampler):
    """A sampler of Optuna's, made anew for each trial with a seed of its own."""

    def __init__(self, make: Callable[[int], BaseSampler], seed: int) -> None:
        self._make, self._seed = make, seed
        self._inner = make(seed)

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        mixed = np.random.SeedSequence([self._seed, *progress(study, trial)])
        self._inner = self._make(int(mixed.generate_state(1)[0]))
        self._inner.before_trial(study, trial)

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        return self._inner.infer_relative_search_space(study, trial)

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        return self._inner.sample_relative(study, trial, search_space)

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        return self._inner.sample_independent(study, trial, param_name, param_distribution)


class Grid(BaseSampler):
    """Every config of the choices once, in an order drawn from the seed.

    Optuna's own ends a study by itself, which only its own loop bears, and counts proposals rather than what was
    measured.
    """

    def __init__(self, space: Space, seed: int) -> None:
        self._space = space
        self._distributions = distributions(space)
        self._listed = list(itertools.product(*space.choices.values()))
        random.Random(seed).shuffle(self._listed)

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        return self._distributions

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        left = self._left(study, trial)
        return parameters(self._space, left if left is not None else self._config(0))

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """Draw a parameter that is not of this space at random."""
        return RandomSampler(seed=trial.number).sample_independent(study, trial, param_name, param_distribution)

    def reason_to_stop(self, study: Study) -> str | None:
        """Return why going on is not worth it, in words, or None."""
        return "every config of the grid has been measured" if self._left(study, None) is None else None

    def _left(self, study: Study, trial: FrozenTrial | None) -> Config | None:
        """Return the next config that was not tried and can run, or None."""
        tried = set(read_history(study, self._space, trial).configs)
        configs = map(self._config, range(len(self._listed)))
        return next((item for item in configs if item not in tried and self._space.legal(item) is None), None)

    def _config(self, place: int) -> Config:
        return config_from(self._space, dict(zip(self._space.choices, self._listed[place], strict=True)))
