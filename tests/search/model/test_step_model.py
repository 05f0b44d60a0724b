"""The two sides of a step and how they combine."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from autotune.config import Config
from autotune.options.space import Space, make_space
from autotune.records import Outcome
from autotune.search.model.encoding import Encoding
from autotune.search.model.step import StepModel
from autotune.search.observation import Observation
from tests.search.conftest import accelerator_context, observe

MEAN = np.zeros((1, 3))


def learn(space: Space, configs: list[Config]) -> tuple[Encoding, StepModel]:
    encoding = Encoding(space)
    return encoding, StepModel(encoding, encoding.rows(configs), [observe(config) for config in configs])


def test_measured_configs_keep_their_times(space: Space) -> None:
    configs = [space.baseline, space.expert(), space.expert().replace(batch_size=64)]
    encoding, model = learn(space, configs)
    np.testing.assert_allclose(
        np.exp(model.log_time(encoding.rows(configs))),
        [observe(config).sample_s for config in configs],
        rtol=0.05,
    )


def test_without_workers_the_sides_add_up_and_beside_them_the_slower_one_counts(space: Space) -> None:
    inside = space.baseline
    beside = space.canonical(inside.replace(num_workers=2))
    encoding, model = learn(space, [inside, beside])
    sooner = space.canonical(inside.replace(num_workers=8))
    times = model.samples(encoding.rows([inside, beside, sooner]), MEAN)[0]
    assert times[0] == pytest.approx(3.0e-3, rel=0.05)
    assert times[1] == pytest.approx(1.0e-3, rel=0.08)
    assert times[2] == pytest.approx(1.0e-3, rel=0.15)  # bound by the compute


def test_an_unknown_loader_that_nobody_waits_for_leaves_the_time_known(space: Space) -> None:
    encoding, model = learn(space, [space.baseline])
    waited_for, hidden = (space.canonical(space.baseline.replace(num_workers=count)) for count in (1, 8))
    spreads = model.spread(encoding.rows([waited_for, hidden]))
    assert spreads[1] < spreads[0] / 2


def test_one_trial_informs_both_sides(space: Space) -> None:
    encoding, model = learn(space, [space.baseline])
    half = space.baseline.replace(precision="bf16")
    both = space.canonical(half.replace(num_workers=4))
    times = model.samples(encoding.rows([space.baseline, half, both]), MEAN)[0]
    assert times[0] > times[1] > times[2]


def test_without_the_two_sides_the_whole_time_is_modelled(space: Space) -> None:
    encoding = Encoding(space)
    seen = [dataclasses.replace(observe(space.baseline), compute_s=None, loader_s=None)]
    model = StepModel(encoding, encoding.rows([space.baseline]), seen)
    half = space.baseline.replace(precision="bf16")
    times = model.samples(encoding.rows([space.baseline, half]), MEAN)[0]
    assert times[0] == pytest.approx(3.0e-3, rel=0.02)
    assert times[1] < times[0]


def test_workers_beyond_the_cores_are_a_load() -> None:
    space = make_space(accelerator_context(cores=2.0))
    encoding = Encoding(space)
    rows = encoding.rows([space.canonical(space.baseline.replace(num_workers=count)) for count in (0, 1, 2)])
    np.testing.assert_allclose(learn(space, [space.baseline])[1].load(rows), [0.0, 0.0, 0.5])


def test_what_workers_cost_a_step_of_several_threads_they_do_not_cost_one_of_one_thread() -> None:
    """Two threads that waited for each other beside a worker say nothing of a step that has one."""
    context = accelerator_context(cores=2.0)
    facts = dataclasses.replace(context.facts, device="cpu", default_threads=2, sample_load_s=5e-3)
    space = make_space(
        dataclasses.replace(context, facts=facts), restricted={"num_threads": [1, 2], "num_workers": [0, 1, 2]}
    )
    beside = space.canonical(space.baseline.replace(num_workers=1))
    seen = [
        Observation(
            config=config, outcome=Outcome.OK, sample_s=total, compute_s=1e-3, loader_s=5e-3, contention_s=slowed
        )
        for config, total, slowed in ((space.baseline, 6e-3, 0.0), (beside, 6e-3, 5e-3))
    ]
    encoding = Encoding(space, [item.config for item in seen])
    model = StepModel(encoding, encoding.rows([item.config for item in seen]), seen)
    alone = space.canonical(beside.replace(num_workers=2, num_threads=1))
    together = space.canonical(alone.replace(num_threads=2))
    times = model.samples(encoding.rows([alone, together]), MEAN)[0]
    assert times[0] < 4e-3 < 1.3 * 4e-3 < times[1]


def test_restarts_of_the_epoch_are_learned_by_loader_option(space: Space) -> None:
    plain = space.canonical(space.baseline.replace(num_workers=4))
    kept = plain.replace(persistent_workers=True)
    encoding = Encoding(space)
    seen = [
        dataclasses.replace(observe(plain), sample_s=2e-3, epoch_s=1e-3),
        dataclasses.replace(observe(kept), sample_s=1e-3, epoch_s=0.0),
    ]
    model = StepModel(encoding, encoding.rows([plain, kept]), seen)
    half = [plain.replace(precision="bf16"), kept.replace(precision="bf16")]
    times = model.samples(encoding.rows(half), MEAN)[0]
    assert times[0] > 1.3 * times[1]
