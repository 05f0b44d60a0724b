"""The flat space that Optuna sees."""

from __future__ import annotations

from optuna.distributions import CategoricalDistribution, IntDistribution

from autotune.config import Config
from autotune.options.space import Space, make_space
from autotune.search.samplers.distributions import config_from, distributions, holds, parameters
from tests.search.conftest import accelerator_context


def test_every_option_is_always_suggested(space: Space) -> None:
    assert distributions(space).keys() == space.choices.keys()


def test_the_batch_size_is_a_grid_and_the_rest_are_choices(space: Space) -> None:
    flat = distributions(space)
    assert flat.pop("batch_size") == IntDistribution(8, 256, step=8)
    assert all(isinstance(distribution, CategoricalDistribution) for distribution in flat.values())


def test_restricted_batch_sizes_stay_as_restricted(small_space: Space) -> None:
    assert distributions(small_space)["batch_size"] == CategoricalDistribution((16, 32, 64))


def test_a_fixed_batch_size_is_one_choice() -> None:
    space = make_space(accelerator_context(), fixed={"batch_size": 50})
    assert distributions(space)["batch_size"] == CategoricalDistribution((50,))


def test_parameters_and_configs_are_the_same_thing(space: Space) -> None:
    for config in (space.baseline, space.expert(), space.canonical(Config(batch_size=40, num_workers=2))):
        assert config_from(space, parameters(space, config)) == config


def test_a_baseline_beside_the_grid_is_not_held() -> None:
    space = make_space(accelerator_context(batch_size=50))
    assert not holds(space, space.baseline)
    assert holds(space, space.expert().replace(batch_size=48))
