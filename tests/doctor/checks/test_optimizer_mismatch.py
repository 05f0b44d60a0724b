from __future__ import annotations

import pytest
import torch
from torch import nn

from autotune.doctor.findings import Basis, Gives
from tests.doctor.looking import Clean, context_of, fault, found_by, work


class TwoParts(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(16, 64)  # fault
        self.head = nn.Linear(64, 3)

    def forward(self, x):
        return self.head(self.body(x))


def of_head(model):
    return torch.optim.SGD(model.head.parameters(), lr=0.1)


def of_another(model):
    return torch.optim.SGD([*model.parameters(), nn.Parameter(torch.zeros(5))], lr=0.1)


def test_gradients_that_no_optimizer_uses_are_found_and_their_cost_measured():
    context = context_of(work(TwoParts, optimizer=of_head), saved=0.3)
    (finding,) = found_by("optimizer_mismatch", context)
    assert finding.where == (f"body ({fault()})",)
    assert finding.gives is Gives.SPEED
    assert finding.gain.share == pytest.approx(0.3)
    assert finding.gain.basis is Basis.MEASURED
    assert all(item.requires_grad for item in context.training.model.parameters())


def test_without_a_gain_it_is_still_said():
    (finding,) = found_by("optimizer_mismatch", context_of(work(TwoParts, optimizer=of_head)))
    assert finding.gives is Gives.RESULT


def test_parameters_that_the_model_does_not_have_are_found():
    (finding,) = found_by("optimizer_mismatch", context_of(work(TwoParts, optimizer=of_another)))
    assert "1 parameter" in finding.seen
    assert finding.where == ("a parameter of shape [5]",)


def test_frozen_parameters_outside_the_optimizer_are_none():
    def frozen():
        model = TwoParts()
        model.body.requires_grad_(False)
        return model

    assert found_by("optimizer_mismatch", context_of(work(frozen, optimizer=of_head))) == []
    assert found_by("optimizer_mismatch", context_of(work(Clean))) == []
