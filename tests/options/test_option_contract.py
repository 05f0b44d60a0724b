"""What every registered option keeps: a new one is tested by existing."""

from __future__ import annotations

import ast
import copy
import dataclasses
import json
import math
import subprocess
import sys
import tomllib

import pytest
import tomli_w

from autotune.config import Config
from autotune.exporting import TARGETS
from autotune.exporting.base import CARRIED_OUT_BY
from autotune.options import OPTIONS, Inapplicable, Maths, option_named
from autotune.options.base import Effect
from autotune.options.space import make_space
from autotune.plan import Plan, edits_of, plan_for
from tests.options.contexts import CONTEXTS

SIDES = {"compute", "loader", "memory"}


@pytest.fixture(params=OPTIONS.values(), ids=OPTIONS)
def option(request):
    return request.param


def possible(option):
    """Yield each context in which the option applies, with its choices there."""
    found = [(context, option.choices(context)) for context in CONTEXTS.values()]
    applicable = [(context, choices) for context, choices in found if not isinstance(choices, Inapplicable)]
    assert applicable, f"{option.name} applies to no workload of these tests"
    return applicable


def test_names_itself_and_what_it_is(option):
    assert OPTIONS[option.name] is option
    assert option.name.isidentifier()
    assert option.help
    assert option.help[0].islower()
    assert len(option.help) < 100
    assert option.affects <= SIDES
    assert option.affects


def test_claims_something_of_the_steps_numbers_that_the_guard_can_hold_it_to(option):
    assert option.claim in Maths
    if "loader" not in option.affects and option.changes_result:
        assert option.claim is not Maths.EXACT


def test_default_is_one_of_its_values(option):
    assert option.check(option.default) is None
    assert type(option.default) in (bool, int, str)
    assert Config(**{option.name: option.default}).value(option.name) == Config().value(option.name)


def test_choices_are_values_and_survive_json_and_toml(option):
    for _, choices in possible(option):
        assert len(choices) >= 1
        assert len(set(choices)) == len(choices)
        for value in choices:
            assert option.check(value) is None
            assert type(value) is type(option.default)
            assert json.loads(json.dumps(value)) == value
            assert tomllib.loads(tomli_w.dumps({option.name: value})) == {option.name: value}


def test_reason_is_given_where_it_does_not_apply(option):
    for context in CONTEXTS.values():
        found = option.choices(context)
        if isinstance(found, Inapplicable):
            assert found.reason
            assert not found.reason.endswith(".")


def test_ordered_choices_are_numbers(option):
    for _, choices in possible(option):
        if option.ordered:
            assert all(type(value) is int for value in choices)
        if option.ordered and option.name != "num_threads":  # whose 0 stands for PyTorch's own number
            assert list(choices) == sorted(choices)


def test_experts_value_is_a_value_and_the_spaces_expert_among_the_choices(option):
    for context, _ in possible(option):
        assert option.check(option.expert(context)) is None
        space = make_space(context)
        expert = space.expert()
        if option.name in expert:
            assert expert[option.name] in (*_offered(space, option), *_today(space, option))


def _offered(space, option):
    """Return the choices, or what follows from those of the option that decides."""
    if option.name in space.choices:
        return space.choices[option.name]
    return [option.decide(value, space.context) for value in space.choices[space.decided[option.name]]]


def _today(space, option):
    return (space.baseline[option.name],) if option.name in space.baseline else ()


def test_prior_is_finite_for_every_choice_and_nothing_for_the_default(option):
    for context, choices in possible(option):
        for value in choices:
            effect = option.prior(value, context)
            assert all(math.isfinite(number) for number in dataclasses.astuple(effect))
            assert all(abs(number) < 5 for number in (effect.compute, effect.loader, effect.memory))  # log ratios
            assert 0 <= effect.host_bytes < 8 << 30
            assert effect.sd >= 0
        if option.name not in ("batch_size", "num_threads"):  # against the baseline's and the machine's
            effect = option.prior(option.default, context)
            assert (effect.compute, effect.loader, effect.memory, effect.host_bytes) == (0, 0, 0, 0)


def test_prior_says_something_of_the_sides_it_affects_alone(option):
    for context, choices in possible(option):
        for value in choices:
            effect = option.prior(value, context)
            moved = {side for side in SIDES if getattr(effect, side) != 0}
            assert moved <= option.affects
            assert not effect.host_bytes or "memory" in option.affects


def edited(plan):
    """Return what a plan says, comparable: functions by their names."""
    fields = {item.name: getattr(plan, item.name) for item in dataclasses.fields(Plan)}
    return {name: [f.__qualname__ for f in part] if isinstance(part, list) else part for name, part in fields.items()}


def test_default_leaves_plain_pytorch(option):
    plan = Plan()
    option.apply(option.default, plan)
    fields = edited(plan)
    loader = fields.pop("loader")
    assert fields == {name: value for name, value in edited(Plan()).items() if name != "loader"}
    assert loader in ({}, {option.name: option.default})


def test_every_choice_edits_the_plan_or_nothing(option):
    needed = {} if option.needs is None else {option.needs: 2}
    for _, choices in possible(option):
        plans = []
        for value in choices:
            plan = plan_for(needed)
            before = edited(copy.deepcopy(plan))
            option.apply(value, plan)
            after = edited(plan)
            plans.append(after)
            if value != option.default:
                assert after != before, f"{option.name}={value} changes nothing"
            for name, part in before.items():  # what others edited is still there
                if isinstance(part, dict):
                    assert part.items() <= after[name].items()
                elif isinstance(part, list):
                    assert after[name][: len(part)] == part
        json.dumps(plans)


def test_snippet_is_python_and_there_where_the_plan_holds_functions(option):
    for _, choices in possible(option):
        for value in choices:
            snippet = option.snippet(value)
            for part in snippet.parts():
                assert ast.parse(part).body
            assert (not snippet.parts()) == (not edits_of(option.name, value) & set(CARRIED_OUT_BY))
            assert TARGETS["pytorch"].refusal(option.name, value) is None


def test_condition_names_another_option(option):
    if option.needs is not None:
        assert option.needs in OPTIONS
        assert option.needs != option.name
        assert OPTIONS[option.needs].order < option.order


@pytest.mark.parametrize("value", [None, [], {}, 1.5, "", "nonsense", -1, 10**30, b"x", True, 7])
def test_check_answers_whatever_it_is_asked(option, value):
    answer = option.check(value)
    assert answer is None or answer.startswith(("takes", "must be"))
    if answer is None:
        assert type(value) is type(option.default)


def test_unknown_option_names_the_nearest():
    from autotune.errors import ConfigError

    with pytest.raises(ConfigError, match="unknown option: num_worker") as caught:
        option_named("num_worker")
    assert caught.value.hint == "Did you mean num_workers?"


def test_effect_of_nothing_is_nothing():
    assert dataclasses.astuple(Effect())[:3] == (0, 0, 0)


def test_steering_side_is_imported_without_torch():
    """Also every module of it by itself, so that none relies on another having been imported."""
    text = """
import importlib, pkgutil, sys
import autotune
for package in ("autotune.cli", "autotune.search", "autotune.report", "autotune.options"):
    module = importlib.import_module(package)
    for found in pkgutil.walk_packages(module.__path__, package + "."):
        importlib.import_module(found.name)
for name in ("autotune.config", "autotune.workload", "autotune.workload.static", "autotune.trials.runner"):
    importlib.import_module(name)
print("torch" in sys.modules)
"""
    ended = subprocess.run([sys.executable, "-W", "error", "-c", text], capture_output=True, text=True, timeout=60)
    assert ended.stdout == "False\n", ended.stderr
