"""What a step did to a model is undone, whatever the model's state_dict holds."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from autotune.probing.kept import Kept
from tests.test_inplace import facts_of


class Partial(nn.Module):
    """Its state_dict leaves out the frozen part, as of models whose backbone is kept elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.frozen, self.act, self.head = nn.Linear(4, 8).requires_grad_(False), nn.ReLU(), nn.Linear(8, 3)

    def forward(self, x):
        return self.head(self.act(self.frozen(x)))

    def state_dict(self, *arguments: Any, **named: Any) -> Any:
        found = super().state_dict(*arguments, **named)
        return {name: item for name, item in found.items() if not name.startswith("frozen")}


class Changing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight, self.steps = nn.Parameter(torch.ones(3)), 0
        self.register_buffer("changed", torch.zeros(2), persistent=False)
        self.register_buffer("replaced", torch.zeros(2))
        self.register_buffer("expanded", torch.ones(1).expand(4))

    def step(self) -> None:
        self.changed.add_(1)
        self.replaced = torch.ones(5)
        self.steps += 1
        with torch.no_grad():
            self.weight.mul_(2)

    def get_extra_state(self) -> Any:
        return {"steps": self.steps}

    def set_extra_state(self, state: Any) -> None:
        self.steps = state["steps"]


def test_a_model_whose_state_dict_leaves_parts_out_is_probed():
    facts = facts_of(Partial)
    assert (facts.inplace, facts.inplace_refused) == ("all", None)


def test_all_that_a_step_changed_is_as_before():
    model = Changing()
    kept = Kept(nn.Sequential(model))
    for _ in range(2):
        model.step()
        kept.restore()
    assert torch.equal(model.weight, torch.ones(3))
    assert torch.equal(model.changed, torch.zeros(2))
    assert torch.equal(model.replaced, torch.zeros(2))
    assert (list(model.state_dict()), model.steps) == (["weight", "replaced", "expanded", "_extra_state"], 0)
