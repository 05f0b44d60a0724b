"""Loaders from which a script reads its data before it trains: they are no training loaders."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import pytest
import torch
from torch.utils.data import DataLoader

from autotune.records import Outcome
from autotune.scripting import watch
from tests.scripting.test_passes import Script, drive  # noqa: F401
from tests.scripting.test_trials import probed_and_measured

STEP_S = 0.02
IN_MEMORY = """
    import time
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset

    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    data = TensorDataset(torch.rand(64, 4), torch.ones(64, 1))
    test_loader = DataLoader(TensorDataset(torch.rand(8, 4), torch.ones(8, 1)), batch_size=4)
    batch_size = 4
    {read}
    for epoch in range(1000):
        model.train()
        for at in range(0, len(X), batch_size):
            time.sleep({step_s})
            optimizer.zero_grad()
            (model(X[at : at + batch_size]) - Y[at : at + batch_size]).square().mean().backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            for x, y in test_loader:
                time.sleep(0.05)
                model(x)
"""
READ = {
    "in one batch": "X, Y = next(iter(DataLoader(data, batch_size=len(data), shuffle=True)))",
    "for its statistics": """X, Y = data.tensors
    mean = sum(x.mean(0) for x, _ in DataLoader(data, batch_size=8)) / 8
    X = X - mean""",
    "batch by batch": "X, Y = (torch.cat(parts) for parts in zip(*DataLoader(data, batch_size=8, shuffle=True)))",
}


@pytest.mark.parametrize("name", READ)
def test_a_script_that_reads_its_data_once_and_makes_its_batches_itself_is_measured(real, write, name):
    script = write(IN_MEMORY.format(read=READ[name], step_s=STEP_S))
    facts, record = probed_and_measured(real, script)
    assert facts.script.loader is None
    assert facts.script.samples_per_step == 4
    assert "makes its batches itself" in facts.fixed_batch
    assert record.outcome is Outcome.OK, record.failure
    assert STEP_S <= record.measurement.step_s < 2 * STEP_S
    assert STEP_S <= record.measurement.mean_step_s < 2 * STEP_S  # evaluations are left out, all of them and no more


class WholeDataInEachStep(Script):
    def __call__(self):
        self.make()
        data = self.loader.dataset
        while True:
            for x, y in DataLoader(data, batch_size=len(data)):
                self.step(x, y)


class ReadsItAheadForStatistics(Script):
    def __call__(self):
        self.make()
        sum(x.mean() for x, _ in self.loader)
        while True:
            self.train()


class ManyUpdatesOfEachBatch(Script):
    def __call__(self):
        self.make()
        while True:
            for x, y in self.loader:
                for _ in range(40):
                    self.step(x, y)


class ManyUpdatesOfTheFirstOfEachEpoch(Script):
    def __call__(self):
        self.make()
        while True:
            x, y = next(iter(self.loader))
            for _ in range(40):
                self.step(x, y)


def found_by_watching(driver):
    watch.watch(driver, Path("train.py"))
    return watch.how_it_trains(driver, sys.modules[__name__])


@pytest.mark.parametrize(
    ("kind", "number", "updates"),
    [
        (WholeDataInEachStep, 1, 1),
        (ReadsItAheadForStatistics, 0, 1),
        (ManyUpdatesOfEachBatch, 0, 40),
        (ManyUpdatesOfTheFirstOfEachEpoch, 0, 40),
    ],
)
def test_a_loader_that_is_asked_again_after_an_update_trains(drive, monkeypatch, kind, number, updates):  # noqa: F811
    monkeypatch.setattr(watch, "MAX_WATCH_S", 0.0)  # as if each update took long
    found = found_by_watching(drive(kind()))
    assert (found.loader, found.batches_per_update, found.updates_per_step) == (number, 1, updates)


class GoesOnWithOneBatch(Script):
    def __call__(self):
        self.make()
        for x, y in self.loader:
            while True:
                self.step(x, y)


def test_a_loader_that_is_not_asked_again_in_time_is_named(drive, monkeypatch):  # noqa: F811
    monkeypatch.setattr(watch, "MAX_DOUBT_S", 0.1)
    script = GoesOnWithOneBatch()
    found = found_by_watching(drive(script))
    assert found.loader is None
    assert found.no_loader.startswith("the loader of test_passes.py:")
    assert "not between them" in found.no_loader


class InMemory(Script):
    """Evaluates after every few updates, with the gradients as `gradients` says, on `batches` of as many."""

    gradients, batches, of = False, 2, 2

    def __call__(self):
        self.make()
        data = self.loader.dataset
        x, y = next(iter(DataLoader(data, batch_size=len(data))))
        test_loader = DataLoader(data, batch_size=len(data) // self.of)
        while True:
            self.model.train()
            for _ in range(3):
                self.step(x, y)
            self.model.eval()
            with torch.set_grad_enabled(self.gradients):
                for u, _ in itertools.islice(test_loader, self.batches):
                    with torch.no_grad():
                        self.model(u)


class WithGradientsOn(InMemory):
    gradients = True


class OnPartOfIt(WithGradientsOn):
    batches = 1


class OnOneBatch(InMemory):
    batches = of = 1


@pytest.mark.parametrize("kind", [InMemory, WithGradientsOn, OnPartOfIt, OnOneBatch])
def test_a_loader_that_is_read_to_evaluate_alone_is_no_training_loader(drive, kind):  # noqa: F811
    found = found_by_watching(drive(kind()))
    assert (found.loader, found.no_loader) == (None, "")


READ_IN_A_THREAD = """
    import queue, threading
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset

    def read(into):
        for batch in DataLoader(data, batch_size=4, shuffle=True):
            into.put(batch)
        into.put(None)

    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    data = TensorDataset(torch.rand(64, 4), torch.ones(64, 1))
    for epoch in range(1000):
        batches = queue.Queue()
        threading.Thread(target=read, args=(batches,)).start()
        for x, y in iter(batches.get, None):
            optimizer.zero_grad()
            (model(x) - y).square().mean().backward()
            optimizer.step()
"""


def test_a_loader_that_is_read_in_a_thread_is_named(real, write):
    facts = real.probe(write(READ_IN_A_THREAD), unmodified=True)
    assert facts.script.loader is None
    for said in (facts.fixed_batch, facts.workers_refused, facts.not_carried_out["loader"], facts.step):
        assert "the loader of train.py:8 is read in a thread other than the main one" in said
