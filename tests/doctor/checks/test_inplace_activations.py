from __future__ import annotations

import pytest
from torch import nn

from autotune.doctor.findings import Gives
from tests.doctor.looking import context_of, fault, found_by, work


class Plain(nn.Module):
    def __init__(self, inplace=False):
        super().__init__()
        self.up = nn.Linear(16, 32)
        self.activate = nn.ReLU(inplace)  # fault
        self.down = nn.Linear(32, 3)

    def forward(self, x):
        return self.down(self.activate(self.up(x)))


class Again(Plain):
    """Uses the activation's input in another layer too."""

    def forward(self, x):
        up = self.up(x)
        return self.down(self.activate(up)) + self.down(up)


class Sigmoid(Plain):
    def __init__(self):
        super().__init__()
        self.activate = nn.Sigmoid()


def test_an_activation_that_could_overwrite_its_input_is_found_where_that_pays():
    context = context_of(work(Plain), saved=0.1)
    (finding,) = found_by("inplace_activations", context)
    assert finding.where == (f"activate ({fault()})",)
    assert finding.gives is Gives.SPEED
    assert finding.gain.share == pytest.approx(0.1)
    assert not context.training.model.activate.inplace


def test_where_it_does_not_pay_there_is_none():
    assert found_by("inplace_activations", context_of(work(Plain), saved=0.01)) == []


@pytest.mark.parametrize("model", [Again, Sigmoid, lambda: Plain(inplace=True)])
def test_inputs_that_are_needed_are_left_alone(model):
    context = context_of(work(model), saved=0.1)
    assert found_by("inplace_activations", context) == []
    assert context.tried == 0
