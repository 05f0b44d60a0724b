"""Models that a script trains after its first ones: folds, ensembles, a second phase."""

from __future__ import annotations

import pytest

from autotune.config import Config
from autotune.facts import ScriptFacts
from autotune.records import Outcome
from autotune.scripting.run import AppliedConfig, run_script

HEAD = """
    import copy, gc, weakref, torch
    from torch import nn
    from torch.optim import optimizer as optimizers
    from torch.utils.data import DataLoader, TensorDataset

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 1)
            self.kinds = []
            made.append(weakref.ref(self))

        def forward(self, x):
            product = self.layer(x)
            self.kinds.append(product.dtype)
            return product

    class Other(Net):
        pass

    def train(model, optimizer, epochs=2):
        for epoch in range(epochs):
            for (x,) in DataLoader(data, batch_size=8, shuffle=True):
                model(x).sum().backward()
                optimizer.step()

    def sgd(model):
        return torch.optim.SGD(model.parameters(), lr=1e-3)

    made, low = [], torch.bfloat16
    data = TensorDataset(torch.ones(64, 4))
"""
FOLDS = """
    for fold in range({folds}):
        model = Net()
        train(model, sgd(model))
        assert set(model.kinds) == {{low}}, model.kinds
"""
LATER = {
    "folds": FOLDS.format(folds=3),
    "another class": """
    first, second = Net(), Other()
    train(first, sgd(first))
    train(second, sgd(second))
    assert set(first.kinds) == set(second.kinds) == {low}, second.kinds
""",
    "made before": """
    models = [Net() for _ in range(3)]
    for model, optimizer in [(model, sgd(model)) for model in models]:
        train(model, optimizer)
    for model in models:
        assert set(model.kinds[1:]) == {low}, model.kinds  # its optimizer is new in its first step
""",
}
NOTHING_LEFT = """
    assert nn.Module.__call__ is nn.Module._wrapped_call_impl
    assert not optimizers._global_optimizer_pre_hooks
    assert not optimizers._global_optimizer_post_hooks
"""


@pytest.fixture
def run(write):
    """Run a script with a config, and return what was noted; it has to come to its end."""

    def run_it(text, **options):
        notes = []
        applied = AppliedConfig(Config(**options), 0, lambda _: None, notes.append)
        assert run_script(write(HEAD + text), (), applied) == 0
        assert applied.applied.keys() == options.keys()
        return notes

    return run_it


@pytest.mark.parametrize("name", LATER)
def test_a_model_that_comes_later_is_computed_as_the_config_says(run, name):
    assert run(LATER[name] + NOTHING_LEFT, precision="bf16") == []


@pytest.mark.parametrize(("folds", "outcome"), [(20, Outcome.OK), (100000, Outcome.UNSUPPORTED)])
def test_each_fold_in_a_trial_is_computed_as_the_config_says_or_none(real, write, folds, outcome):
    record = real.run(
        write(HEAD + FOLDS.format(folds=folds)),
        config={"batch_size": 8, "precision": "bf16"},
        unmodified=True,
        found=ScriptFacts(loader=0),
        dataset_length=64,
    )
    assert record.outcome is outcome, record.failure


def test_models_that_the_script_gives_up_go(run):
    gone = """
    gc.collect()
    assert [one() is not None for one in made[1:]] == [False, True], made
"""
    run(LATER["folds"] + gone, precision="bf16")


def test_a_copy_that_averages_and_a_teacher_stay_as_they_are(run):
    aside = """
    with torch.no_grad():
        copied = copy.deepcopy(model)
        copied.kinds.clear()
        optimizer = sgd(copied)
        copied(torch.ones(1, 4))
    assert set(copied.kinds) == {torch.float32}, copied.kinds
"""
    run(LATER["folds"] + aside, precision="bf16")


@pytest.mark.parametrize(
    ("trained", "options", "told"),
    [
        ("copy.deepcopy(model)", {"precision": "bf16"}, True),
        ("copy.deepcopy(model)", {"optimizer_impl": "foreach"}, False),
        ("model", {"precision": "bf16"}, False),
    ],
)
def test_a_script_that_makes_optimizers_all_the_time_is_not_looked_at_all_the_time(run, trained, options, told):
    all_the_time = f"""
    model = Net()
    for step in range(60):
        now = {trained}
        optimizer = sgd(now)
        for _ in range(5):
            now(torch.ones(8, 4)).sum().backward()
            optimizer.step()
"""
    notes = run(all_the_time + NOTHING_LEFT, **options)
    assert ["one new model after the other" in note for note in notes] == [True] * told
