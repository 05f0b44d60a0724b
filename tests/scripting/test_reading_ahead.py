"""Scripts that ask for a batch before they train on the one they have: each step is timed, and once."""

from __future__ import annotations

import pytest

from autotune.records import Outcome
from tests.scripting.test_trials import probed_and_measured

STEP_S = 0.02
AHEAD = """
    import time
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset

    class Prefetcher:  # as NVIDIA's apex has one
        def __init__(self, loader):
            self.batches = iter(loader)
            self.preload()

        def preload(self):
            self.following = next(self.batches, None)

        def next(self):
            current = self.following
            self.preload()
            return current

    def prefetched(loader):
        prefetcher = Prefetcher(loader)
        yield from iter(prefetcher.next, None)

    def ahead(loader):  # as accelerate reads its loaders
        batches = iter(loader)
        current = next(batches)
        for following in batches:
            yield current
            current = following
        yield current

    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    data = TensorDataset(torch.ones(4 * {batches}, 4), torch.ones(4 * {batches}, 1))
    loader, test_loader = DataLoader(data, batch_size=4, shuffle=True), DataLoader(data, batch_size=4)
    for epoch in range(1000):
        for x, y in {how}(loader):
            time.sleep({step_s})
            optimizer.zero_grad()
            (model(x) - y).square().mean().backward()
            optimizer.step()
        {after}
"""
EVALUATES = """with torch.no_grad():
            for x, y in test_loader:
                time.sleep(0.1)
                model(x)"""


@pytest.mark.parametrize("after", [pytest.param("time.sleep(0.1)", marks=pytest.mark.slow), EVALUATES])
@pytest.mark.parametrize(
    ("how", "batches"),
    [("ahead", 1), pytest.param("ahead", 2, marks=pytest.mark.slow), ("prefetched", 2), ("ahead", 40)],
)
def test_each_step_of_an_epoch_is_timed_once_and_nothing_else(real, write, how, batches, after):
    script = write(AHEAD.format(how=how, batches=batches, after=after, step_s=STEP_S))
    facts, record = probed_and_measured(real, script)
    assert (facts.script.batches_per_update, facts.script.updates_per_step) == (1, 1)
    assert record.outcome is Outcome.OK, record.failure
    found = record.measurement
    assert found.steps_per_epoch == batches
    assert STEP_S <= found.step_s < 2 * STEP_S
    assert STEP_S <= found.compute_s < 2 * STEP_S
    assert found.wait_s < STEP_S / 2
    assert found.epoch_overhead_s < STEP_S / 2
