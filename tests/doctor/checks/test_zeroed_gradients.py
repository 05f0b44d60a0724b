from __future__ import annotations

import pytest
from torch import nn
from torch.nn.functional import cross_entropy

from autotune.doctor.findings import Basis, Gives
from tests.doctor.looking import context_of, fault, found_by, work


class Wide(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(16, 4096), nn.Linear(4096, 512), nn.Linear(512, 3))

    def forward(self, x):
        return self.layers(x)


def zeroes(tuned, model, batch):
    (optimizer,) = tuned.optimizers
    loss = cross_entropy(model(batch[0]), batch[1])
    optimizer.zero_grad(set_to_none=False)  # fault
    loss.backward()
    optimizer.step()
    return loss


def forgets(tuned, model, batch):
    (optimizer,) = tuned.optimizers
    loss = cross_entropy(model(batch[0]), batch[1])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


def test_gradients_filled_with_zeros_are_found():
    (finding,) = found_by("zeroed_gradients", context_of(work(Wide, training_step=zeroes)))
    assert finding.where == (fault(),)
    assert finding.gives is Gives.SPEED
    assert finding.gain.basis is Basis.BOUND
    assert finding.gain.share > 0.01


@pytest.mark.parametrize("step", [forgets, None])
def test_gradients_set_to_none_are_none(step):
    changes = {} if step is None else {"training_step": step}
    assert found_by("zeroed_gradients", context_of(work(Wide, **changes))) == []
