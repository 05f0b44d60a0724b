from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from autotune.doctor.findings import Basis, Gives
from tests.doctor.looking import Clean, context_of, fault, found_by, work


class Taught(Clean):
    def __init__(self):
        super().__init__()
        self.teacher = nn.Sequential(nn.Linear(16, 256), nn.Tanh(), nn.Linear(256, 3))

    def forward(self, x):
        wanted = self.teacher(x).detach()  # fault
        return super().forward(x) + wanted


class Careful(Taught):
    def forward(self, x):
        with torch.no_grad():
            wanted = self.teacher(x)
        return self.layers(x) + wanted


class Frozen(Taught):
    def __init__(self):
        super().__init__()
        self.teacher.requires_grad_(False)

    def forward(self, x):
        return self.layers(x) + self.teacher(x)  # frozen


def asks(model, batch):
    return cross_entropy(model(batch[0].requires_grad_()), batch[1])


def test_a_graph_that_is_thrown_away_is_found():
    context = context_of(work(Taught), saved=0.2)
    (finding,) = found_by("frozen_graph", context)
    assert finding.where[0] == fault()
    assert finding.where[1].startswith("teacher (")
    assert finding.gives is Gives.SPEED
    assert finding.gain.share == pytest.approx(0.2)
    assert finding.gain.basis is Basis.MEASURED
    assert finding.gain.saved_bytes >= 8 * 256 * 4  # tanh keeps its output
    assert "forward" not in vars(context.training.model.teacher)


def test_an_input_that_asks_for_a_gradient_makes_a_frozen_module_record():
    (finding,) = found_by("frozen_graph", context_of(work(Frozen, training_step=asks), saved=0.2))
    assert finding.where[0] == fault("frozen")
    assert "teacher records a graph" in finding.seen


@pytest.mark.parametrize("model", [Careful, Frozen, Clean])
def test_frozen_modules_without_a_graph_are_none(model):
    assert found_by("frozen_graph", context_of(work(model), saved=0.2)) == []
