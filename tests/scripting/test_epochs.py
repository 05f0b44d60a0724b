"""A script's epochs stay as long as its loader says, whatever else the trial feeds it in between."""

from __future__ import annotations

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from autotune.facts import ScriptFacts
from autotune.plan import Plan
from autotune.records import Outcome
from autotune.scripting.changes import Changes
from autotune.scripting.loaders import LoaderHooks
from tests.scripting.test_trials import probed_and_measured

COUNTS = """
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset

    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    loader = DataLoader(TensorDataset(torch.ones({samples}, 4), torch.ones({samples}, 1)), batch_size=4, shuffle=True)
    {before}
    for epoch in range({epochs}):
        losses = [None] * len(loader)
        for step, (x, y) in enumerate(loader):
            optimizer.zero_grad()
            loss = (model(x) - y).square().mean()
            loss.backward()
            optimizer.step()
            losses[step] = loss.item()
            {after}
"""
SCHEDULED = {
    "before": "scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=3 * len(loader))",
    "after": "scheduler.step()",
    "epochs": 3,
}


@pytest.mark.parametrize(
    ("samples", "scheduled"),
    [
        (4, False),
        (24, False),
        (200, False),
        (24, True),
        *(pytest.param(n, True, marks=pytest.mark.slow) for n in (4, 200)),
    ],
)
def test_a_script_that_counts_on_its_loaders_length_gets_no_more_batches(real, write, samples, scheduled):
    parts = SCHEDULED if scheduled else {"before": "", "after": "pass", "epochs": 1000}
    _, record = probed_and_measured(real, write(COUNTS.format(samples=samples, **parts)))
    assert record.outcome is Outcome.OK, record.failure
    found = record.measurement
    assert found.steps_per_epoch == samples // 4
    assert found.samples_per_epoch == samples
    assert found.compute_s > 0


def test_a_small_batch_in_the_first_epoch_leaves_its_length_as_it_is(real, write):
    script = write(COUNTS.format(samples=40, before="", after="pass", epochs=1000))
    record = real.run(
        script,
        config={"batch_size": 4, "num_workers": 1},
        unmodified=True,
        found=ScriptFacts(loader=0),
        dataset_length=40,
        small_batch=2,
    )
    assert record.outcome is Outcome.OK, record.failure
    assert record.measurement.small_batch == 2
    assert record.measurement.steps_per_epoch == 10
    assert record.measurement.samples_per_epoch == 40


RETURNS = """
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset

    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    data = TensorDataset(torch.ones(4 * {batches}, 4), torch.ones(4 * {batches}, 1))
    loader = DataLoader(data, batch_size=4, shuffle=True)

    def train():
        total, count, outputs = 0.0, 0, []
        for x, y in loader:
            optimizer.zero_grad()
            output = model(x)
            loss = (output - y).square().mean()
            loss.backward()
            optimizer.step()
            total += loss.item()
            count += 1
            outputs.append(output.detach())
        {end}

    for epoch in range(1000):
        train()
"""
ENDS = ("return total / count", "return torch.cat(outputs)", "return loss")


@pytest.mark.parametrize(("batches", "end"), [*((1, end) for end in ENDS), *((some, ENDS[0]) for some in (2, 3))])
def test_no_epoch_of_a_script_is_over_without_a_batch(real, write, batches, end):
    _, record = probed_and_measured(real, write(RETURNS.format(batches=batches, end=end)))
    assert record.outcome is Outcome.OK, record.failure
    assert record.measurement.steps_per_epoch == batches
    assert record.measurement.compute_s > 0


STREAMS = """
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, IterableDataset

    class Numbers(IterableDataset):
        def __iter__(self):
            yield from ((torch.ones(4), torch.ones(1)) for _ in range(40))

    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for epoch in range(1000):
        losses = [None] * 10
        for step, (x, y) in enumerate(DataLoader(Numbers(), batch_size=4)):
            optimizer.zero_grad()
            loss = (model(x) - y).square().mean()
            loss.backward()
            optimizer.step()
            losses[step] = loss.item()
"""


def test_where_a_stream_was_fed_batches_again_its_failure_says_so(real, write):
    record = real.run(
        write(STREAMS), config={"batch_size": 4}, unmodified=True, found=ScriptFacts(loader=0), dataset_length=None
    )
    assert record.outcome is Outcome.ERROR
    assert "IndexError: list assignment index out of range" in record.failure.message
    assert "trained it further than it goes by itself" in record.failure.message
    assert "losses[step] = loss.item()" in record.failure.traceback


class Again:
    """Orders batches for ever."""

    def __init__(self, sampler):
        self.sampler = sampler

    def __iter__(self):
        while True:
            yield from self.sampler


class OneIterator(DataLoader):
    """Its workers go on from one epoch to the next, as timm's do."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        object.__setattr__(self, "batch_sampler", Again(self.batch_sampler))
        self.iterator = super().__iter__()

    def __len__(self):
        return len(self.batch_sampler.sampler)

    def __iter__(self):
        for _ in range(len(self)):
            yield next(self.iterator)


def test_a_loader_that_keeps_one_iterator_for_all_epochs_is_never_told_that_it_ended():
    hooks, changes = LoaderHooks(Plan(), ask=lambda batches: next(batches.inner)), Changes()
    hooks.install(changes)
    try:
        data = TensorDataset(torch.ones(20, 1))
        plain, one = DataLoader(data, batch_size=4), OneIterator(data, batch_size=4)
        assert len(list(plain)) == len(list(one)) == len(list(one)) == 5
    finally:
        changes.undo()
    assert [seen.length for seen in hooks.seen] == [5, None]
