"""The split of an effective batch: one option decides the other, so that no trial is wasted."""

from __future__ import annotations

import re

import numpy as np
import pytest

from autotune.config import Config
from autotune.errors import UsageError
from autotune.options.accumulation import check_effective_batch, samples_per_update
from autotune.options.space import make_space
from autotune.search.model import candidates
from autotune.search.model.encoding import Encoding
from autotune.search.samplers.distributions import config_from, distributions, holds, parameters
from tests.options.contexts import make_context


def split(whole, **others):
    return make_space(make_context(effective_batch=whole, **others))


def test_batch_sizes_are_the_divisors_on_the_grid_and_the_whole():
    assert split(256).choices["batch_size"] == (8, 16, 32, 64, 128, 256)
    assert split(96).choices["batch_size"] == (8, 16, 24, 32, 48, 96)
    assert split(100, batch_step=5).choices["batch_size"] == (5, 10, 20, 25, 50, 100)


@pytest.mark.parametrize("today", [{"batch_size": 32}, {"batch_size": 256}, {"batch_size": 50}])
def test_every_config_of_the_space_makes_the_same_samples_a_step(today):
    space = split(256, baseline=today)
    encoding = Encoding(space, [space.baseline])
    rows = candidates.everything(encoding)
    assert len(rows) == candidates.count(encoding)
    found = {encoding.config(row) for row in rows}
    assert len(found) == len(rows)
    for config in found:
        assert samples_per_update(config) == 256
        assert space.canonical(config) == config
        assert config_from(space, parameters(space, config)) == config
    drawn = candidates.drawn(encoding, 300, np.random.default_rng(0))
    near = candidates.neighbours(encoding, encoding.rows([space.baseline, space.expert()]))
    for row in [*drawn, *near]:
        config = encoding.config(row)
        assert config["batch_size"] == today["batch_size"] == 50 or samples_per_update(config) == 256
    assert "accumulation" not in distributions(space)


def test_a_baseline_of_other_samples_a_step_lies_beside_the_space():
    space = split(256)
    assert space.baseline["accumulation"] == 1
    assert space.canonical(space.baseline) == space.baseline
    assert not holds(space, space.baseline)
    assert space.canonical(Config(batch_size=32))["accumulation"] == 8
    within = split(256, baseline={"batch_size": 32, "accumulation": 8})
    assert holds(within, within.baseline)


@pytest.mark.parametrize("other", [{"precision": "bf16"}, {"num_workers": 2}, {"batch_size": 64}])
def test_whatever_else_is_put_back_to_the_baselines_batch_makes_the_samples_that_were_asked_for(other):
    space = split(256)
    assert samples_per_update(space.canonical(space.baseline.replace(**other))) == 256


def test_a_baseline_that_accumulates_goes_on_doing_so():
    space = make_space(make_context(baseline={"batch_size": 16, "accumulation": 4}))
    assert space.choices["accumulation"] == (4,)
    assert "--effective-batch" in space.reasons["accumulation"]
    assert space.canonical(Config(batch_size=64))["accumulation"] == 4


@pytest.mark.parametrize(
    ("facts", "message", "hint"),
    [
        (
            {"effective_batch": 100},
            "no batch size divides it: they are multiples of 8",
            "Take 96 or 104.*--batch-step 4",
        ),
        ({"effective_batch": 96, "max_batch": 4}, "at most 4", "--max-batch"),
        ({"effective_batch": 96, "dataset_length": 90}, "the dataset has 90 samples", "no more"),
        ({"effective_batch": 96, "own_step": True}, "does its own backward passes", ""),
        ({"effective_batch": 96, "fixed_batch": "the data say so"}, "does not apply here: the data say so", ""),
    ],
)
def test_an_effective_batch_that_cannot_be_had_is_an_error(facts, message, hint):
    with pytest.raises(UsageError, match=message) as caught:
        check_effective_batch(make_context(**facts))
    assert re.search(hint, caught.value.hint)


def test_what_follows_from_the_batch_size_cannot_be_fixed():
    with pytest.raises(UsageError, match="accumulation follows from batch_size"):
        make_space(make_context(effective_batch=96), fixed={"accumulation": 2})
    with pytest.raises(UsageError, match="does not divide the 96 samples"):
        make_space(make_context(effective_batch=96), fixed={"batch_size": 64})
    space = make_space(make_context(effective_batch=96), fixed={"batch_size": 24})
    assert space.expert()["accumulation"] == 4


def test_the_expert_starts_at_the_largest_divisor_up_to_todays_batch():
    assert split(256, baseline={"batch_size": 50}).expert()["batch_size"] == 32
    assert split(256, baseline={"batch_size": 4}).expert()["batch_size"] == 8
