"""Passes over the training loader: those that train nothing are no steps, and of two read in turn one is held."""

from __future__ import annotations

import itertools
import sys

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from autotune.device import device_named
from autotune.facts import ScriptFacts
from autotune.plan import Plan
from autotune.scripting.driver import Driver
from autotune.scripting.training import ScriptBatches
from autotune.scripting.watch import how_it_trains

BATCHES = 4
EPOCHS = 5


class Script:
    """What scripts do with their training loader; `clocks` are readings where nothing is trained."""

    def __init__(self):
        self.driver = None
        self.clocks = []

    def make(self):
        self.model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2), nn.Linear(2, 1))
        self.optimizers = [torch.optim.SGD(self.model.parameters(), lr=1e-3) for _ in range(2)]
        data = TensorDataset(torch.ones(2 * BATCHES, 2), torch.ones(2 * BATCHES, 1))
        self.loader = DataLoader(data, batch_size=2, shuffle=True)

    def step(self, x, y, optimizer=0):
        (self.model(x) - y).square().mean().backward()
        self.optimizers[optimizer].step()

    def train(self):
        self.model.train()
        for x, y in self.loader:
            self.step(x, y)

    def evaluate(self):
        for x, _ in self.loader:
            self.model(x)
            self.clocks.append(self.driver.clock())


class Evaluates(Script):
    def __call__(self):
        self.make()
        while True:
            self.train()
            self.model.eval()
            with torch.no_grad():
                self.evaluate()


class OnlyInsideTheLoop(Script):
    """Gradients are on where the pass begins."""

    def __call__(self):
        self.make()
        while True:
            self.train()
            self.model.eval()
            for x, _ in self.loader:
                with torch.no_grad():
                    self.model(x)
                self.clocks.append(self.driver.clock())


class UpdatesAveraged(Script):
    """As `torch.optim.swa_utils.update_bn`: in training mode, without gradients."""

    def __call__(self):
        self.make()
        averaged = torch.optim.swa_utils.AveragedModel(self.model)
        while True:
            self.train()
            averaged.train()
            with torch.no_grad():
                for x, _ in self.loader:
                    averaged(x)
                    self.clocks.append(self.driver.clock())


class BeginsAlike(Script):
    """Nothing but the missing updates tells the pass that evaluates from the one that trains."""

    def __call__(self):
        self.make()
        while True:
            self.train()
            for x, _ in self.loader:
                self.model.eval()
                with torch.no_grad():
                    self.model(x)
                self.model.train()


class TrainsInEvaluationMode(Script):
    def __call__(self):
        self.make()
        while True:
            self.model.eval()
            for x, y in self.loader:
                self.step(x, y)


class Accumulates(Script):
    def __call__(self):
        self.make()
        while True:
            for number, (x, y) in enumerate(self.loader, 1):
                (self.model(x) - y).square().mean().backward()
                if number % BATCHES == 0:
                    self.optimizers[0].step()


class Zipped(Script):
    def __call__(self):
        self.make()
        while True:
            for (x, y), _ in zip(self.loader, self.loader, strict=True):
                self.step(x, y)


class OneForEachModel(Script):
    def __call__(self):
        self.make()
        while True:
            first, second = iter(self.loader), iter(self.loader)
            for _ in range(BATCHES):
                self.step(*next(first))
                self.step(*next(second), optimizer=1)
            assert next(first, None) is None


class BegunAgainAtTheEnd(Script):
    def __call__(self):
        self.make()
        iterators = [iter(self.loader), iter(self.loader)]
        while True:
            for number in range(2):
                try:
                    x, y = next(iterators[number])
                except StopIteration:
                    iterators[number] = iter(self.loader)
                    x, y = next(iterators[number])
                self.step(x, y, optimizer=number)


@pytest.fixture
def drive():
    drivers = []

    def make(script, found=None):
        script.driver = Driver(script, Plan(), device_named("cpu"), found)
        drivers.append(script.driver)
        script.driver.install()
        return script.driver

    yield make
    for driver in reversed(drivers):
        driver.close()
    torch.set_grad_enabled(True)  # a script may be left where it evaluates


def fed(driver):
    """Return the epochs of the script as the protocol sees them: the updates that each batch brought."""
    driver.start()
    batches = ScriptBatches(driver)
    epochs = []
    for _ in range(EPOCHS):
        epochs.append([])
        for batch in batches:
            before = driver.updates.total()
            driver.feed(batch)
            epochs[-1].append(driver.updates.total() - before)
    return epochs


@pytest.mark.parametrize("kind", [Evaluates, OnlyInsideTheLoop, UpdatesAveraged])
def test_a_pass_that_trains_nothing_is_neither_held_nor_timed(drive, kind):
    script = kind()
    first, *others = fed(drive(script, ScriptFacts(loader=0)))
    assert first == [1] * (BATCHES - 1)
    assert others == [[1] * BATCHES] * (EPOCHS - 1)
    for at in range(0, len(script.clocks), BATCHES):
        assert len(set(script.clocks[at : at + BATCHES])) == 1, "the clock ran"


def test_where_passes_begin_alike_each_shows_by_its_first_update(drive):
    epochs = fed(drive(BeginsAlike(), ScriptFacts(loader=0)))
    assert sum(updates == 0 for epoch in epochs for updates in epoch) <= 2
    assert epochs[2:] == [[1] * (BATCHES - 1)] * (EPOCHS - 2)


def test_a_script_that_trains_in_evaluation_mode_is_held_at_all_its_passes(drive):
    epochs = fed(drive(TrainsInEvaluationMode(), ScriptFacts(loader=0)))
    assert epochs[2:] == [[1] * BATCHES] * (EPOCHS - 2)


def test_a_pass_of_one_update_trains(drive):
    epochs = fed(drive(Accumulates(), ScriptFacts(loader=0, batches_per_update=BATCHES)))
    assert epochs[1:] == [[0] * (BATCHES - 1) + [1]] * (EPOCHS - 1)


def test_an_epoch_that_is_fed_too_little_for_an_update_says_nothing(drive):
    driver = drive(Accumulates(), ScriptFacts(loader=0, batches_per_update=BATCHES))
    driver.start()
    batches = ScriptBatches(driver)
    for _ in range(3):
        list(batches)
    for batch in itertools.islice(batches, 1):
        driver.feed(batch)
    driver.end_epoch()
    assert driver.request.given == 0, "it is held at once"


@pytest.mark.parametrize(("kind", "updates"), [(Zipped, 1), (OneForEachModel, 2), (BegunAgainAtTheEnd, 2)])
def test_of_two_iterators_over_one_loader_that_are_read_in_turn_one_is_held(drive, kind, updates):
    epochs = fed(drive(kind(), ScriptFacts(loader=0, updates_per_step=updates)))
    assert epochs[1:] == [[updates] * BATCHES] * (EPOCHS - 1)


@pytest.mark.parametrize("kind", [Evaluates, OnlyInsideTheLoop, UpdatesAveraged, BeginsAlike, Zipped])
def test_the_probe_counts_the_batches_of_passes_that_train(drive, kind):
    driver = drive(kind())
    driver.watch(lambda: driver.updates.total() > 3 * BATCHES)
    found = how_it_trains(driver, sys.modules[__name__])
    assert (found.batches_per_update, found.updates_per_step) == (1, 1)
