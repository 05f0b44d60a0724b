"""Coordinate descent from expert settings: what an engineer does by hand, as a sampler for comparison."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler, RandomSampler
from optuna.study import Study
from optuna.trial import FrozenTrial

from autotune.config import Config
from autotune.options.space import Space
from autotune.search.observation import Observation
from autotune.search.samplers.distributions import distributions, parameters
from autotune.search.samplers.history import History, read_history
from autotune.search.samplers.plan import expert_at_baseline


class StagedSampler(BaseSampler):
    """Baseline, expert settings, larger batches as long as they fit and pay, then one option at a time."""

    def __init__(self, space: Space, seed: int) -> None:
        self._space = space
        self._random = RandomSampler(seed)

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        return distributions(self._space)

    def sample_relative(self, study: Study, trial: FrozenTrial, search_space: dict[str, Any]) -> dict[str, Any]:
        """Return the stage that follows what was seen; nothing, and so a draw at random, when all are done."""
        known = {seen.config: seen for seen in read_history(study, self._space, trial).seen}
        stages = _stages(self._space)
        wanted = next(stages)
        try:
            while wanted in known:
                wanted = stages.send(known[wanted])
        except StopIteration:
            return {}
        return parameters(self._space, wanted)

    def sample_independent(self, study: Study, trial: FrozenTrial, name: str, distribution: BaseDistribution) -> Any:
        return self._random.sample_independent(study, trial, name, distribution)


def _stages(space: Space) -> Generator[Config, Observation, None]:
    """Yield configs to measure; each is answered with what was seen of it."""
    best = yield space.baseline
    best = _better(best, (yield expert_at_baseline(space, History([], []))))
    sizes = sorted(int(size) for size in space.choices["batch_size"])
    for size in sizes:
        if size >= 2 * int(best.config["batch_size"]):
            seen = yield space.canonical(best.config.replace(batch_size=size))
            if _better(best, seen) is not seen:
                break
            best = seen
    changed = True
    while changed:
        before = best.config
        for option in _by_expected_gain(space):
            for value in space.choices[option]:
                config = space.canonical(best.config.replace(**{option: value}))
                if config != best.config:
                    best = _better(best, (yield config))
        changed = best.config != before


def _by_expected_gain(space: Space) -> list[str]:
    """Return the options, the one from which most is expected first."""

    def expected(name: str) -> float:
        option = next(item for item in space.options() if item.name == name)
        effects = [option.prior(value, space.context) for value in space.choices[name]]
        return max(abs(effect.compute) + abs(effect.loader) + effect.sd for effect in effects)

    return sorted((name for name in space.choices if name != "batch_size"), key=expected, reverse=True)


def _better(one: Observation, other: Observation) -> Observation:
    usable = other.outcome.measured and other.fits is not False
    if not usable or (one.outcome.measured and one.sample_s and other.sample_s and one.sample_s <= other.sample_s):
        return one
    return other
