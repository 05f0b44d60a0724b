"""The samplers that a search can use: the registry. Each is imported only when asked for."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable

from optuna.samplers import BaseSampler

from autotune.errors import UsageError
from autotune.options.space import Space
from autotune.search.samplers.distributions import distributions
from autotune.search.samplers.objectives import Objective

__all__ = ["SAMPLERS", "distributions", "make_sampler"]

STRUCTURED = "structured"
LARGEST_GRID = 100_000  # configs that Optuna's grid sampler lists in memory


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
    if name == STRUCTURED:
        from autotune.search.samplers.structured import StructuredSampler

        return StructuredSampler(space, seed, trials=trials, timed=timed, objective=objective)
    if name not in OTHERS:
        raise UsageError(f"unknown sampler: {name}", hint=f"Samplers: {', '.join(SAMPLERS)}")
    return OTHERS[name](space, seed)


def _tpe(space: Space, seed: int) -> BaseSampler:
    from optuna.samplers import TPESampler

    return TPESampler(seed=seed)


def _gp(space: Space, seed: int) -> BaseSampler:
    from optuna.exceptions import ExperimentalWarning
    from optuna.samplers import GPSampler

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        return GPSampler(seed=seed, deterministic_objective=False)


def _random(space: Space, seed: int) -> BaseSampler:
    from optuna.samplers import RandomSampler

    return RandomSampler(seed=seed)


def _grid(space: Space, seed: int) -> BaseSampler:
    from optuna.samplers import GridSampler

    size = math.prod(len(values) for values in space.choices.values())
    if size > LARGEST_GRID:
        raise UsageError(
            f"a grid of {size:,} configs is too large to list",
            hint="Restrict the options, or use another sampler.",
        )
    return GridSampler({name: list(values) for name, values in space.choices.items()}, seed=seed)


OTHERS: dict[str, Factory] = {"tpe": _tpe, "gp": _gp, "random": _random, "grid": _grid}
SAMPLERS = (STRUCTURED, *OTHERS)
"""names that `--sampler` takes"""
