"""Which options apply to an unmodified script: by what scripting carries out, so that none can silently do nothing."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from autotune.facts import ScriptFacts
from autotune.options import OPTIONS
from autotune.options.base import Inapplicable
from autotune.options.space import make_space
from autotune.plan import Plan, plan_for
from autotune.scripting.carried import CARRIED_OUT, NO_LOADER, not_carried_out
from autotune.workload.static import look
from tests.options.contexts import CONTEXTS


def as_script(context, *, has_loader=True, own_scaler=False, refused=None):
    facts = replace(
        context.facts,
        script=ScriptFacts(loader=0 if has_loader else None),
        not_carried_out=not_carried_out(no_loader=None if has_loader else NO_LOADER, own_scaler=own_scaler),
        refused=refused or {},
    )
    return replace(context, facts=facts)


def touched(name, value):
    plan, plain = plan_for({name: value}), Plan()
    return {item.name for item in fields(Plan) if getattr(plan, item.name) != getattr(plain, item.name)}


def test_every_part_of_a_plan_is_carried_out_or_refused_with_a_reason():
    names = {item.name for item in fields(Plan)}
    refused = not_carried_out(no_loader=None, own_scaler=False)
    assert names >= CARRIED_OUT
    assert names == CARRIED_OUT | refused.keys()
    assert all(refused.values())


@pytest.mark.parametrize("has_loader", [True, False])
@pytest.mark.parametrize("name", OPTIONS)
def test_no_choice_on_a_script_asks_for_what_is_not_carried_out(name, has_loader):
    for context in CONTEXTS.values():
        context = as_script(context, has_loader=has_loader)
        space = make_space(context)
        refused = set(context.facts.not_carried_out)
        choices = space.choices.get(name, ())
        if len(choices) > 1:
            assert not any(touched(name, value) & refused for value in choices)
        else:
            found = OPTIONS[name].choices(context)
            assert isinstance(found, Inapplicable) or len(found) == 1 or space.reasons[name]


def test_what_the_script_decides_itself_is_left_to_it():
    context = next(iter(CONTEXTS.values()))
    reason = "the script sets torch.set_num_threads(3) itself"
    space = make_space(as_script(context, refused={"num_threads": reason, "num_workers": NO_LOADER}))
    assert "num_threads" not in space.choices
    assert space.reasons["num_threads"] == reason
    assert space.reasons["num_workers"] == NO_LOADER


@pytest.mark.parametrize("name", [name for name, option in OPTIONS.items() if option.needs is not None])
def test_what_needs_an_option_goes_with_it(name):
    needed = OPTIONS[name].needs
    for context in CONTEXTS.values():
        space = make_space(as_script(context, refused={needed: "the script decides"}))
        assert needed not in space.choices
        assert name not in space.choices
        assert space.reasons.get(name)


@pytest.mark.parametrize(
    ("text", "offers"),
    [
        ("import torch\nmodel = 1", False),
        ("import autotune\nworkload = autotune.Workload(model=1, dataset=2)", True),
        ("from autotune import Workload", True),
        ("def main():\n    import autotune", True),
        ("from mine import build_model, build_dataset", True),
        ("def build_model(): pass\ndef build_dataset(): pass", True),
        ("def build_model(): pass\ndef main(): pass", False),
        ("def build_model(width=8, *more, **rest): pass\ndef build_dataset(bs): pass", True),
        ("def build_model(): pass\ndef build_loader(batch_size, **options): pass", True),
        ("def build_model(args): pass\ndef build_dataset(): pass", False),
        ("def build_model(*, args): pass\ndef build_dataset(): pass", False),
        ("def build_model(): pass\ndef build_dataset(split, root='.'): pass", False),
        ("def build_model(): pass\ndef build_dataset(split): pass\ndef build_loader(batch_size): pass", True),
        ("from mine import build_model, build_dataset\nmodel = build_model()\ndata = build_dataset()", True),
        ("from mine import build_model, build_dataset\ndef main(args):\n    build_model(args)", False),
        ("from mine import build_model, build_dataset\ndef main():\n    build_dataset(root='.')", False),
        ("import autotuner", False),
    ],
)
def test_a_script_offers_a_workload_as_far_as_its_text_shows(tmp_path, text, offers):
    script = tmp_path / "train.py"
    script.write_text(text)
    assert look(script).has_workload is offers


BATCHES = """
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, Sampler, TensorDataset

    class Buckets(Sampler):
        def __len__(self):
            return 8

        def __iter__(self):
            for start in range(0, 48, 6):
                yield list(range(start, start + 6))

    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    data = DataLoader(TensorDataset(torch.ones(48, 4), torch.ones(48, 1)), batch_sampler=Buckets())
    for epoch in range(1000000):
        for x, y in data:
            optimizer.zero_grad()
            {loss}.backward()
            optimizer.step()
"""


LOSS = "(model(x) - y).square().mean()"


def test_the_samples_of_a_batch_sampler_of_the_scripts_own_are_counted(real, write):
    facts = real.probe(write(BATCHES.format(loss=LOSS)), unmodified=True)
    assert facts.baseline["batch_size"] == 6
    assert "batch_sampler" in facts.fixed_batch


def test_the_order_of_a_batch_samplers_batches_does_not_decide_how_many_samples_they_have(real, write):
    text = BATCHES.replace("return 8", "return 48").replace("range(0, 48, 6)", "[0] * 16 + [3] * 32")
    script = write(text.format(loss=LOSS).replace("range(start, start + 6)", "range(start, 6)"))
    assert real.probe(script, unmodified=True).baseline["batch_size"] == 4  # in the mean of 16 of 6 and 32 of 3


def test_the_samples_of_a_sampler_that_yields_batches_are_counted(real, write):
    given = "batch_size=None, sampler=torch.utils.data.BatchSampler(range(48), 6, False)"
    facts = real.probe(write(BATCHES.replace("batch_sampler=Buckets()", given).format(loss=LOSS)), unmodified=True)
    assert facts.baseline["batch_size"] == facts.probe_batch == 6
    assert "the sampler of train.py" in facts.fixed_batch


def test_what_needs_a_model_does_not_apply_where_none_is_called(real, write):
    loss = "(x @ model.weight.T + model.bias - y).square().mean()"
    facts = real.probe(write(BATCHES.format(loss=loss)), unmodified=True)
    assert {facts.refused[name] for name in ("precision", "channels_last", "compile_mode")} == {
        "no nn.Module with trainable parameters was called"
    }
