"""The samplers that a search can use: the registry. Each is imported only when asked for."""

from __future__ import annotations

import warnings
from collections.abc import Callable

from optuna.samplers import BaseSampler

from autotune.errors import UsageError
from autotune.options.space import Space
from autotune.search.samplers.distributions import distributions
from autotune.search.samplers.objectives import Objective
from autotune.search.samplers.stateless import Grid, Reseeded

__all__ = ["SAMPLERS", "distributions", "make_sampler"]

STRUCTURED = "structured"
LARGEST_GRID = 100_000  # configs that are listed in memory
SEEDS = 2**31  # generators take no seed below 0, and some none much above this


Factory = Callable[[Space, int], BaseSampler]
"""makes a sampler for one study over a space, with a seed"""


def make_sampler(
    name: str,
    space: Space,
    seed: int,
    *,
    trials: int | None = None,
    timed: bool = False,
    objective: Objective | None = None,
) -> BaseSampler:
    """Return the sampler called `name`. Only the structured one heeds the budget and the objective.

    Args:
        trials: budget of the search; None: open-ended.
        timed: whether the budget is one of time as well.

    Raises:
        UsageError: there is none of that name, or it cannot handle this space.
    """
    seed %= SEEDS
    if name == STRUCTURED:
        from autotune.search.samplers.structured import StructuredSampler

        return StructuredSampler(space, seed, trials=trials, timed=timed, objective=objective)
    if name not in OTHERS:
        raise UsageError(f"unknown sampler: {name}", hint=f"Samplers: {', '.join(SAMPLERS)}")
    return OTHERS[name](space, seed)


def _tpe(space: Space, seed: int) -> BaseSampler:
    from optuna.samplers import TPESampler

    return Reseeded(lambda own: TPESampler(seed=own), seed)


def _gp(space: Space, seed: int) -> BaseSampler:
    from optuna.exceptions import ExperimentalWarning
    from optuna.samplers import GPSampler

    def make(own: int) -> BaseSampler:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ExperimentalWarning)
            return GPSampler(seed=own, deterministic_objective=False)

    return Reseeded(make, seed)


def _random(space: Space, seed: int) -> BaseSampler:
    from optuna.samplers import RandomSampler

    return Reseeded(lambda own: RandomSampler(seed=own), seed)


def _grid(space: Space, seed: int) -> BaseSampler:
    if space.size() > LARGEST_GRID:
        raise UsageError(
            f"a grid of {space.size():,} configs is too large to list",
            hint="Restrict the options, or use another sampler.",
        )
    return Grid(space, seed)


OTHERS: dict[str, Factory] = {"tpe": _tpe, "gp": _gp, "random": _random, "grid": _grid}
SAMPLERS = (STRUCTURED, *OTHERS)
"""names that `--sampler` takes"""
