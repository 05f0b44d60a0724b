"""How long a training needs to start, and what that does to a plan and to the cost of a trial."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from autotune.config import Config
from autotune.options.space import Space, make_space
from autotune.search.model.belief import Belief
from autotune.search.model.encoding import Encoding
from autotune.search.model.start import StartModel
from autotune.search.observation import Observation
from tests.search.conftest import accelerator_context, observe


@pytest.fixture
def space() -> Space:
    context = accelerator_context()
    facts = dataclasses.replace(context.facts, compile_refused=None)
    asked = {"batch_size": [32, 64], "compile_mode": ["off", "default"]}
    return make_space(dataclasses.replace(context, facts=facts), restricted=asked, fixed={"num_workers": 4})


def seen(config: Config, start_s: float, planned: int | None = None) -> Observation:
    found = observe(config)
    share_s = start_s / planned if planned else 0.0
    return dataclasses.replace(
        found, sample_s=(found.sample_s or 0.0) + share_s, start_s=start_s, planned_samples=planned
    )


def model_of(space: Space, trials: list[Observation]) -> tuple[Encoding, StartModel]:
    encoding = Encoding(space)
    return encoding, StartModel(encoding, encoding.rows([trial.config for trial in trials]), trials)


def test_what_options_say_holds_until_it_was_measured(space):
    plain, compiled = space.baseline, space.baseline.replace(compile_mode="default")
    rows = [plain, space.canonical(compiled)]
    encoding, model = model_of(space, [seen(plain, 2.0)])
    np.testing.assert_allclose(model.added_s(encoding.rows(rows)), [0.0, 30.0])
    encoding, model = model_of(space, [seen(plain, 2.0), seen(rows[1], 92.0)])
    np.testing.assert_allclose(model.added_s(encoding.rows(rows)), [0.0, 90.0])


def test_without_a_plan_the_start_has_no_share(space):
    encoding, model = model_of(space, [seen(space.baseline, 2.0)])
    assert model.share_s(encoding.rows([space.baseline])) == [0.0]


def test_the_belief_puts_start_and_pace_together(space):
    """The pace is learned without the start, whatever the plan."""
    compiled = space.canonical(space.baseline.replace(compile_mode="default"))
    trials = [seen(space.baseline, 2.0, 10_000), seen(compiled, 32.0, 10_000)]
    belief = Belief(space, trials)
    np.testing.assert_allclose(belief.measured_times, [trial.sample_s for trial in trials], rtol=0.05)
    rows = belief.encoding.rows([space.baseline, compiled])
    np.testing.assert_allclose(
        np.exp(belief.time.log_time(rows)), [trial.steady_sample_s for trial in trials], rtol=0.05
    )
    costs = belief.outlook(rows, np.zeros((1, 3))).costs
    assert costs[1] > costs[0]
