"""What the script's backward passes start from, by whichever way it begins them."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from autotune.scripting.changes import Changes
from autotune.scripting.losses import Losses

TRAINS = """
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset

    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    data = DataLoader(TensorDataset(torch.rand(24, 4), torch.rand(24, 1)), batch_size=4, shuffle=True)
    for epoch in range(1000000):
        for x, y in data:
            optimizer.zero_grad()
            loss = (model(x) - y).square().mean() * float("nan")
            {begins}
            optimizer.step()
"""


@pytest.fixture
def losses():
    changes = Changes()
    losses = Losses(lambda: None)
    losses.install(changes)
    yield losses
    changes.undo()


@pytest.mark.parametrize(
    "begins",
    [
        "torch.autograd.backward(loss)",
        "torch.autograd.backward([loss])",
        "torch.autograd.backward((loss, loss * 2))",
        "model.weight.grad, model.bias.grad = torch.autograd.grad(loss, [model.weight, model.bias])",
    ],
)
def test_a_loss_that_is_not_finite_is_seen(real, write, begins):
    failure = real.refusal(write(TRAINS.replace("{begins}", begins)), unmodified=True)
    assert "the loss is nan" in failure.message


def test_each_way_to_begin_a_backward_pass_counts_once(losses):
    weight = torch.ones(2, requires_grad=True)
    weight.sum().backward()
    assert losses.last.item() == 2
    torch.autograd.backward([3 * weight.sum(), weight.sum()])
    assert losses.last.item() == 6
    torch.autograd.backward(torch.autograd.graph.get_gradient_edge(weight.sum()), torch.tensor(1.0))
    assert losses.last is None
    assert losses.count == 3


@pytest.mark.parametrize("given", [tuple, list, iter, lambda items: dict(enumerate(items))])
def test_gradients_of_parameters_that_are_asked_for_are_a_backward_pass(losses, given):
    model, point = nn.Linear(2, 1), torch.ones(4, 2, requires_grad=True)
    (slope,) = torch.autograd.grad(model(point).sum(), point, create_graph=True)
    assert losses.count == 0
    loss = slope.square().sum()
    found = torch.autograd.grad(loss, given([model.weight]))
    assert next(iter(found.values() if isinstance(found, dict) else found)).shape == model.weight.shape
    assert losses.count == 1
    assert losses.last.item() == loss.item()


@pytest.mark.parametrize("reentrant", [True, False])
def test_what_is_recomputed_begins_no_pass_of_its_own(losses, reentrant):
    model, inputs = nn.Linear(2, 1), torch.ones(4, 2, requires_grad=True)
    loss = checkpoint(model, inputs, use_reentrant=reentrant).sum()
    loss.backward()
    assert losses.count == 1
    assert losses.last.item() == loss.item()
