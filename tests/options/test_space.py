"""The space: choices, what the user fixed or left out, canonical configs, the digest."""

from __future__ import annotations

import itertools
import random
import warnings
from dataclasses import replace

import pytest
import torch
from torch.utils.data import TensorDataset

from autotune.config import Config
from autotune.errors import UsageError
from autotune.options import OPTIONS
from autotune.options.space import make_space
from autotune.tuned import Tuned
from tests.options.contexts import CONTEXTS, make_context, on_cuda


def sampled(space, count, seed=0):
    """Return configs drawn from the choices, each option by itself."""
    draw = random.Random(seed)
    return [Config(**{name: draw.choice(values) for name, values in space.choices.items()}) for _ in range(count)]


@pytest.mark.filterwarnings(
    "ignore:This DataLoader will create", "ignore:'pin_memory' argument is set", "ignore:drop_last would"
)
@pytest.mark.parametrize("context", CONTEXTS)
def test_c28_no_config_of_the_space_makes_a_loader_raise(context):
    """Neither as drawn nor canonical; and the loader yields a batch of the size that was asked for."""
    space = make_space(CONTEXTS[context])
    data = TensorDataset(torch.zeros(300, 2))
    for config in sampled(space, 200 // len(CONTEXTS) + 5):
        for made in (config, space.canonical(config)):
            loader = Tuned(made, device="cpu").loader(data, shuffle=True)
            assert loader.batch_size == made.value("batch_size")
            assert loader.num_workers == made.value("num_workers")
            if made.value("num_workers") == 0:
                assert next(iter(loader))[0].shape[0] == min(300, made.value("batch_size"))


@pytest.mark.parametrize("context", CONTEXTS)
def test_canonical_config_stands_for_itself_and_measures_the_same(context):
    space = make_space(CONTEXTS[context])
    for config in sampled(space, 50):
        found = space.canonical(config)
        assert space.canonical(found) == found
        assert set(found) <= {*space.choices, *space.decided}
        for name in space.choices:
            if name in found:
                assert found[name] == config[name]
            else:
                assert OPTIONS[name].needs is not None  # nothing else may be left out


def test_inert_values_collapse():
    space = make_space(on_cuda())
    inert = [
        Config(num_workers=0, prefetch_factor=factor, persistent_workers=kept)
        for factor, kept in itertools.product((2, 4, 8), (False, True))
    ]
    assert len({space.canonical(config) for config in inert}) == 1
    alive = [config.replace(num_workers=2) for config in inert]
    assert len({space.canonical(config) for config in alive}) == 6


def test_unset_options_take_todays_value():
    space = make_space(make_context(baseline={"batch_size": 48, "num_workers": 2, "prefetch_factor": 4}))
    assert space.canonical(Config())["num_workers"] == 2
    assert space.canonical(Config()) == space.baseline
    assert space.baseline["prefetch_factor"] == 4
    assert "prefetch_factor" not in space.canonical(Config(num_workers=0))


@pytest.mark.parametrize(
    ("asked", "values"),
    [({"fixed": {"persistent_workers": True}}, [True]), ({"restricted": {"prefetch_factor": [4, 8]}}, [4, 8])],
)
def test_what_has_no_effect_today_takes_one_of_its_choices_where_it_has(asked, values):
    space = make_space(make_context(baseline={"batch_size": 32, "num_workers": 0}), **asked)
    (name,) = next(iter(asked.values()))
    assert name not in space.baseline
    assert space.canonical(Config(num_workers=2))[name] in values
    assert space.canonical(space.baseline) == space.baseline


def test_todays_value_is_a_choice_in_its_place():
    space = make_space(make_context(baseline={"batch_size": 40, "num_workers": 5, "prefetch_factor": 3}))
    assert 40 in space.choices["batch_size"]
    assert space.choices["num_workers"] == (0, 1, 2, 3, 4, 5, 6, 8)
    assert space.choices["prefetch_factor"] == (2, 3, 4, 8)


@pytest.mark.parametrize(
    ("today", "others"), [(30, {}), (96, {"dataset_length": 50}), (64, {"max_batch": 32}), (5, {"batch_step": 2})]
)
def test_todays_batch_size_off_the_grid_or_too_large_is_beside_the_choices(today, others):
    space = make_space(make_context(baseline={"batch_size": today}, **others))
    assert today not in space.choices["batch_size"]
    assert space.baseline["batch_size"] == today


@pytest.mark.parametrize(
    "others", [{"dataset_length": 5}, {"dataset_length": 9, "batchnorm": True, "custom_loader": True}, {"max_batch": 3}]
)
def test_c03_todays_batch_size_is_kept_where_no_other_is_possible(others):
    """It must not become PyTorch's default of one, which nobody runs."""
    space = make_space(make_context(baseline={"batch_size": 4}, **others))
    assert space.choices["batch_size"] == (4,)
    assert space.baseline["batch_size"] == 4
    assert "batch_size" in space.reasons


def test_maximum_is_respected_exactly():
    space = make_space(make_context(max_batch=100))
    assert max(space.choices["batch_size"]) == 96
    space = make_space(make_context(max_batch=100, batch_step=1))
    assert max(space.choices["batch_size"]) == 100


def test_fixed_option_has_one_choice_and_the_baseline_stays_what_it_is():
    space = make_space(make_context(baseline={"batch_size": 32}), fixed={"num_workers": 2, "precision": "fp32"})
    assert space.choices["num_workers"] == (2,)
    assert space.baseline.value("num_workers") == 0
    assert all(space.canonical(config)["num_workers"] == 2 for config in sampled(space, 20))


def test_restricted_option_has_these_choices_in_this_order():
    space = make_space(make_context(), restricted={"num_workers": [4, 0, 4], "batch_size": [64, 32]})
    assert space.choices["num_workers"] == (4, 0)
    assert space.choices["batch_size"] == (64, 32)


def test_excluded_option_stays_as_today():
    space = make_space(
        make_context(baseline={"batch_size": 32, "num_workers": 1}), excluded=["num_workers", "precision"]
    )
    assert space.choices["num_workers"] == (1,)
    assert space.choices["precision"] == ("fp32",)
    assert space.reasons["num_workers"] == "excluded"


KEPT = [
    ({"compile_mode": "default"}, {"compile_refused": None, "trials": 4}),
    ({"compile_mode": "default"}, {"compile_refused": None, "planned_samples": 10}),
    ({"drop_last": True}, {}),
    ({"drop_last": True}, {"dataset_length": 64, "max_batch": 64, "batch_step": 32}),
]


@pytest.mark.parametrize(("today", "others"), KEPT)
def test_what_is_not_worth_searching_stays_as_it_is_today(today, others):
    """The baseline is what the user runs: a search that left it out would compare with something else."""
    for_all = {name: value for name, value in others.items() if name in ("trials", "planned_samples")}
    facts = {name: value for name, value in others.items() if name not in for_all}
    context = replace(make_context(baseline={"batch_size": 32, **today}, **facts), **for_all)
    ((name, value),) = today.items()
    space = make_space(context)
    assert space.choices[name] == (value,)
    assert space.baseline[name] == value
    assert all(space.canonical(config)[name] == value for config in sampled(space, 8))
    assert name not in make_space(replace(context, baseline={"batch_size": 32})).choices


def test_another_start_of_workers_may_be_asked_for():
    """Threads of OpenCV are none of Python's: nothing that is seen speaks against fork, and workers hang."""
    assert "multiprocessing_context" not in make_space(make_context()).choices
    space = make_space(make_context(), fixed={"num_workers": 1, "multiprocessing_context": "spawn"})
    assert space.choices["multiprocessing_context"] == ("spawn",)


@pytest.mark.parametrize(
    ("wishes", "says"),
    [
        ({"fixed": {"pin_memory": True}}, "pin_memory does not apply here: there is no accelerator"),
        ({"restricted": {"pin_memory": [True]}}, "pin_memory does not apply here"),
        ({"fixed": {"num_worker": 1}}, "unknown option: num_worker"),
        ({"excluded": ["num_worker"]}, "unknown option: num_worker"),
        ({"fixed": {"num_workers": "two"}}, "num_workers takes a whole number"),
        ({"fixed": {"batch_size": 20_000}}, "batch_size=20000 cannot run here: more than the 10000 samples"),
        ({"restricted": {"batch_size": [8, 20_000]}}, "more than the 10000 samples"),
        ({"fixed": {"precision": "fp32"}, "excluded": ["precision"]}, "more than one of --fix"),
        ({"fixed": {"precision": "fp32"}, "restricted": {"precision": ["fp32"]}}, "more than one of --fix"),
    ],
)
def test_wishes_that_cannot_be_met(wishes, says):
    with pytest.raises(UsageError, match=says):
        make_space(make_context(), **wishes)


def test_fixing_what_does_not_apply_to_what_it_is_anyway_is_fine():
    assert "pin_memory" not in make_space(make_context(), fixed={"pin_memory": False}).choices


def test_excluding_what_does_not_apply_is_fine():
    assert "pin_memory" not in make_space(make_context(), excluded=["pin_memory"]).choices


def test_legal_says_why_a_config_cannot_run():
    space = make_space(make_context(dataset_length=97, batchnorm=True))
    assert space.legal(Config(batch_size=64)) is None
    assert "last batch of one sample" in space.legal(Config(batch_size=96))
    assert "more than the 97 samples" in space.legal(Config(batch_size=128))


def test_expert_is_canonical_and_of_the_space():
    for context in CONTEXTS.values():
        space = make_space(context)
        expert = space.expert()
        assert space.canonical(expert) == expert


def test_size_counts_every_combination():
    space = make_space(
        make_context(), fixed={"precision": "fp32"}, restricted={"batch_size": [8, 16], "num_workers": [0]}
    )
    assert space.size() == len(list(itertools.product(*space.choices.values())))


def test_digest_is_that_of_the_choices_alone():
    digests = {make_space(make_context(load_s=load_s)).digest() for load_s in (1e-3, 1e-2)}
    assert len(digests) == 1
    assert make_space(make_context(), fixed={"num_workers": 1}).digest() not in digests
    assert make_space(make_context(max_batch=64)).digest() not in digests


def test_digest_is_stable():
    """A study holds it: a change here makes every earlier study one of another space."""
    space = make_space(
        make_context(cores=2.0), restricted={"batch_size": [8, 16], "num_workers": [0, 1]}, excluded=["channels_last"]
    )
    assert (
        space.digest()
        == make_space(
            make_context(cores=2.0),
            restricted={"batch_size": [8, 16], "num_workers": [0, 1]},
            excluded=["channels_last"],
        ).digest()
    )
    assert len(space.digest()) == 16
    int(space.digest(), 16)


def test_c41_pinned_memory_warns_nobody_on_a_cpu():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for config in sampled(make_space(make_context()), 10):
            next(iter(Tuned(config.replace(num_workers=0), device="cpu").loader(TensorDataset(torch.zeros(8, 1)))))
