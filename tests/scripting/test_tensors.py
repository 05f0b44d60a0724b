"""Scripts whose optimizer holds tensors that belong to no module."""

from __future__ import annotations

import pytest

from autotune.records import Outcome
from tests.scripting.test_trials import probed_and_measured

IMAGE = """
    import torch
    from torch import nn

    network = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU()).requires_grad_(False)
    wanted = network(torch.rand(1, 1, 8, 8))
    image = torch.rand(1, 1, 8, 8).requires_grad_()
    optimizer = torch.optim.LBFGS([image], lr=0.1)

    def closure():
        optimizer.zero_grad()
        loss = (network(image) - wanted - torch.rand_like(wanted)).square().mean()  # converges never
        loss.backward()
        return loss

    for step in range(1000000):
        optimizer.step(closure)
"""
FACTORS = """
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    users, items = (torch.randn(8, 2, requires_grad=True) for _ in range(2))
    optimizer = torch.optim.SGD([users, items], lr=1e-2)
    data = TensorDataset(torch.randint(8, (64,)), torch.randint(8, (64,)), torch.rand(64))
    for epoch in range(1000000):
        for user, item, rating in DataLoader(data, batch_size=4, shuffle=True):
            optimizer.zero_grad()
            ((users[user] * items[item]).sum(1) - rating).square().mean().backward()
            optimizer.step()
"""
BESIDE_A_MODEL = """
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset

    head = nn.Linear(4, 1)
    prompt = torch.zeros(4, requires_grad=True)
    optimizer = torch.optim.SGD([prompt], lr=1e-2)
    data = TensorDataset(torch.rand(64, 4), torch.rand(64, 1))
    for epoch in range(1000000):
        for x, y in DataLoader(data, batch_size=4, shuffle=True):
            optimizer.zero_grad()
            (head(x + prompt) - y).square().mean().backward()
            optimizer.step()
"""


@pytest.mark.parametrize("script", [IMAGE, FACTORS, BESIDE_A_MODEL])
def test_what_the_optimizer_holds_is_trained(real, write, script):
    facts, record = probed_and_measured(real, write(script))
    assert record.outcome is Outcome.OK, record.failure
    assert record.measurement.updates >= 3
    if script is IMAGE:
        assert facts.optimizer_impls_refused == "LBFGS takes neither foreach nor fused"
