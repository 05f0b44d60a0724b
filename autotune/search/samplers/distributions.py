"""The flat Optuna space of a search: every option is always suggested, whether it has an effect or not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution

from autotune.config import Config
from autotune.options.base import Value
from autotune.options.batch_size import ladder, largest_batch
from autotune.options.space import Space


def distributions(space: Space) -> dict[str, BaseDistribution]:
    """Return one fixed distribution for each option of the space.

    The batch size is a grid of every multiple of the step, finer than its choices, unless restricted.
    """
    return {
        name: _batch_grid(space) if name == "batch_size" and _on_ladder(space) else CategoricalDistribution(values)
        for name, values in space.choices.items()
    }


def parameters(space: Space, config: Config) -> dict[str, Value]:
    """Return a config as parameters of the flat space; inert options stand at a value of no effect."""
    flat: dict[str, Value] = {}
    for name, values in space.choices.items():
        if name in config:
            flat[name] = config[name]
        else:
            today = space.baseline.get(name)
            default = next(option.default for option in space.options() if option.name == name)
            flat[name] = today if today in values else default if default in values else values[0]
    return flat


def holds(space: Space, config: Config) -> bool:
    """Return whether the flat space can express a config; a baseline may lie beside it."""
    expressed = contains(distributions(space), config)
    return expressed and (not space.decided or config_from(space, parameters(space, config)) == config)


def contains(flat: Mapping[str, BaseDistribution], config: Config) -> bool:
    """Return whether every value of a config lies in its distribution."""
    return all(_contains(flat[name], value) for name, value in config.items() if name in flat)


def config_from(space: Space, params: Mapping[str, Any]) -> Config:
    """Return the canonical config that parameters of the flat space stand for."""
    return space.canonical(Config(**{name: value for name, value in params.items() if name in space.choices}))


def _batch_grid(space: Space) -> IntDistribution:
    step = space.context.batch_step
    return IntDistribution(step, largest_batch(space.context) // step * step, step=step)


def _on_ladder(space: Space) -> bool:
    """Whether the choices are those of the option itself, not a restriction by the user."""
    if space.decided:  # only its choices divide the samples of an optimizer step
        return False
    step, sizes = space.context.batch_step, space.choices["batch_size"]
    legal = {
        size for size in ladder(step, largest_batch(space.context)) if space.legal(Config(batch_size=size)) is None
    }
    return len(sizes) > 1 and legal <= set(sizes) and all(int(size) % step == 0 for size in sizes)


def _contains(distribution: BaseDistribution, value: Value) -> bool:
    if isinstance(distribution, IntDistribution):
        number = int(value)
        low, high, step = distribution.low, distribution.high, distribution.step
        return low <= number <= high and (number - low) % step == 0
    assert isinstance(distribution, CategoricalDistribution)
    return value in distribution.choices
