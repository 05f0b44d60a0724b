"""Models beside the trained one: what is computed by them on a step's batch is a part of the step."""

from __future__ import annotations

import pytest

from autotune.records import Outcome
from tests.scripting.test_trials import probed_and_measured

SLOW_S = 0.02
SCRIPT = """
    import copy, time
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset

    class Slow(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            time.sleep({backward_s})
            return gradient

    class Net(nn.Module):
        def __init__(self, seconds):
            super().__init__()
            self.linear, self.seconds = nn.Linear(4, 1), seconds

        def forward(self, x):
            time.sleep(self.seconds)
            return self.linear(x)

    @torch.no_grad()
    def without_gradients(model, x):
        return model.eval()(x)

    model, other = Net(0.0), Net({other_s})
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    data = TensorDataset(torch.ones(64, 4), torch.ones(64, 1))
    loader = DataLoader(data, batch_size=4, shuffle=True)

    def batches():
        for epoch in range(1000):
            yield from {batches}

    for step, (x, y) in enumerate(batches()):
        optimizer.zero_grad()
        {before}
        out = Slow.apply(model(x))
        {after}
        (out - y).square().mean().backward()
        optimizer.step()
        {then}
"""
TEACHES = "y = without_gradients(other, x)"
NOTHING = "pass"
MADE = "((torch.ones(4, 4), torch.ones(4, 1)) for _ in range(16))"


@pytest.mark.parametrize("batches", ["loader", MADE])
@pytest.mark.parametrize(("before", "after"), [(TEACHES, NOTHING), (NOTHING, TEACHES)])
def test_a_teacher_and_what_comes_after_it_are_in_the_step(real, write, batches, before, after):
    parts = {"batches": batches, "before": before, "after": after, "then": NOTHING}
    facts, record = probed_and_measured(real, write(SCRIPT.format(**parts, other_s=SLOW_S, backward_s=SLOW_S)))
    assert (facts.parameters, facts.trainable_parameters) == (10, 5)
    assert record.outcome is Outcome.OK, record.failure
    assert record.measurement.step_s > 2 * SLOW_S
    assert record.measurement.compute_s > 2 * SLOW_S


def test_an_average_that_is_tried_out_after_an_update_is_in_none(real, write):
    parts = {"batches": "loader", "before": NOTHING, "after": NOTHING, "then": TEACHES}
    _, record = probed_and_measured(real, write(SCRIPT.format(**parts, other_s=SLOW_S, backward_s=0.0)))
    assert record.outcome is Outcome.OK, record.failure
    assert record.measurement.step_s < SLOW_S
