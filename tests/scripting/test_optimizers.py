"""Optimizers that a script makes anew for each epoch or phase: each goes on for the one before it."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch
from torch import nn

from autotune.plan import Plan
from autotune.records import Outcome
from autotune.scripting.changes import Changes
from autotune.scripting.optimizers import OptimizerHooks
from tests.scripting.test_trials import probed_and_measured

OVER_A_LOADER = """
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset

    model = nn.Linear(4, 1)
    data = DataLoader(TensorDataset(torch.rand(24, 4), torch.rand(24, 1)), batch_size=4, shuffle=True)
    for phase in range(1000000):
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)
        for x, y in data:
            optimizer.zero_grad()
            (model(x) - y).square().mean().backward()
            optimizer.step()
        schedule.step()
"""
WITHOUT_A_LOADER = """
    import torch
    from torch import nn

    model = nn.Linear(4, 1)
    for phase in range(1000000):
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
        for step in range(6):
            optimizer.zero_grad()
            model(torch.rand(4, 4)).square().mean().backward()
            optimizer.step()
"""


@pytest.mark.parametrize("script", [OVER_A_LOADER, WITHOUT_A_LOADER])
def test_one_made_anew_for_each_phase_is_one_optimizer(real, write, script):
    facts, record = probed_and_measured(real, write(script))
    assert facts.optimizer == "Adam"
    assert (facts.script.updates_per_step, facts.script.batches_per_update) == (1, 1)
    assert record.outcome is Outcome.OK, record.failure
    assert record.measurement.updates > 12
    assert "script_rerun" not in record.measurement.flags


class Script:
    """Makes optimizers and lets them step under the hooks."""

    def __init__(self) -> None:
        self.updated: list[int] = []
        self.changes = Changes()
        self.hooks = OptimizerHooks(Plan(), self.updated.append, lambda: False, lambda: None)
        self.hooks.install(self.changes)
        self.models = [nn.Linear(2, 1), nn.Linear(2, 1)]

    def make(self) -> list[torch.optim.Optimizer]:
        return [torch.optim.SGD(model.parameters()) for model in self.models]


@pytest.fixture
def script():
    script = Script()
    yield script
    script.changes.undo()


def test_several_of_one_place_are_followed_each_by_its_own(script):
    for _ in range(3):
        for optimizer in script.make():
            optimizer.step()
    assert script.updated == [0, 1, 0, 1, 0, 1]
    assert list(script.hooks.numbers) == [0, 1]


def test_one_of_another_place_is_another(script):
    (first, _), second = script.make(), torch.optim.SGD(script.models[0].parameters())
    for optimizer in (first, second, first):
        optimizer.step()
    assert script.updated == [0, 1, 0]
    assert script.hooks.optimizers == [first, second]


def test_one_that_the_script_gives_up_is_not_kept(script):
    made = []
    for _ in range(2):
        kept = script.make()
        kept[0].step()
        made.append(weakref.ref(kept[0]))
    gc.collect()
    assert [item() for item in made] == [None, kept[0]]
    assert script.hooks.optimizers == kept[:1]
    assert script.hooks.train(script.models[0])
    assert not script.hooks.train(script.models[1])
