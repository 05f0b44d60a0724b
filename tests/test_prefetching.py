"""Batches that go ahead to the device: in what order copies and steps happen, and that nothing is used too early."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from autotune import tuned as tuned_module
from autotune.config import Config
from autotune.measure.protocol import Wanted, measure
from autotune.prefetching import Ahead
from autotune.tuned import Tuned
from tests.measure.fake_device import FakeAsyncDevice
from tests.measure.measuring import make_workload, open_session

COPY_S, COMPUTE_S = 0.02, 0.06
PREFETCH = Config(batch_size=4, pin_memory=True, device_prefetch=True)

pytestmark = pytest.mark.filterwarnings("ignore:'pin_memory' argument is set")


class TwoQueues(FakeAsyncDevice):
    """A device with a second queue. `log` is what the host gave it and what it did, in order of time."""

    def __init__(self) -> None:
        super().__init__()
        self.log: list[str] = []
        self.kept = 0

    def copies(self) -> FakeCopies:
        return FakeCopies(self)

    def compute(self, number: int) -> None:
        self.log.append(f"compute {number} given")

        def run() -> None:
            self.log.append(f"compute {number} begins")
            time.sleep(COMPUTE_S)
            self.log.append(f"compute {number} ends")

        self.give(run)


class FakeCopies:
    """Copies take their time on threads; a batch that is handed over makes the first queue wait for its copy."""

    def __init__(self, device: TwoQueues) -> None:
        self.device = device
        self.arrived: list[threading.Event] = []

    @contextmanager
    def beside(self) -> Iterator[None]:
        number, arrived = len(self.arrived), threading.Event()
        self.arrived.append(arrived)
        self.device.log.append(f"copy {number} given")

        def run() -> None:
            time.sleep(COPY_S)
            self.device.log.append(f"copy {number} done")
            arrived.set()

        yield
        threading.Thread(target=run, daemon=True).start()

    def mark(self) -> int:
        return len(self.arrived) - 1

    def hand_over(self, mark: int, tensors: list[torch.Tensor]) -> None:
        self.device.kept += len(tensors)
        self.device.give(lambda: bool(self.arrived[mark].wait(5)))


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Iterator[TwoQueues]:
    device = TwoQueues()
    monkeypatch.setattr(tuned_module, "device_named", lambda name: device)
    yield device
    device.close()


def numbers(length: int = 16) -> TensorDataset:
    return TensorDataset(torch.arange(float(length)), torch.arange(length))


def test_the_copy_of_the_next_batch_is_given_before_the_step_on_this_one_and_done_before_it_is_used(device):
    with Tuned(PREFETCH) as tuned:
        for number, _ in enumerate(tuned.loader(numbers())):
            device.compute(number)
            device.synchronize()  # a step that makes the host wait, as .item() does
    log = device.log
    for number in range(4):
        assert log.index(f"copy {number} done") < log.index(f"compute {number} begins")
    for number in range(3):
        assert log.index(f"copy {number + 1} given") < log.index(f"compute {number} ends")
        assert log.index(f"copy {number + 1} done") < log.index(f"compute {number} ends")  # so it was hidden
    assert device.kept == 2 * 4  # every tensor of every batch is kept for the step


def test_batches_are_the_same_and_in_the_same_order(device):
    plain = [[x.tolist(), y.tolist()] for x, y in DataLoader(numbers(18), batch_size=4)]
    with Tuned(PREFETCH) as tuned:
        loader = tuned.loader(numbers(18))
        assert len(loader) == len(plain) == 5
        for _ in range(2):
            assert [[x.tolist(), y.tolist()] for x, y in loader] == plain


def test_where_gradients_are_accumulated_one_batch_goes_ahead_as_well(device):
    """The end of an epoch of known length needs no looking ahead, which would have a third batch on the device."""
    with Tuned(PREFETCH.replace(accumulation=2)) as tuned:
        for number, _ in enumerate(tuned.loader(numbers())):
            given = sum(item.endswith("given") for item in device.log)
            assert given == min(number + 2, 4)


def test_an_empty_loader_yields_nothing(device):
    assert list(Ahead([], device.copies(), lambda batch: batch)) == []


def test_a_transform_of_the_batch_runs_with_the_step_and_not_ahead(device):
    """It may draw random numbers on the device: their order stays."""
    with Tuned(PREFETCH) as tuned:
        tuned.batch_transform = lambda batch: device.log.append("transform") or batch
        for number, _ in enumerate(tuned.loader(numbers(8))):
            device.log.append(f"step {number}")
    seen = [item for item in device.log if item.startswith(("transform", "step"))]
    assert seen == ["transform", "step 0", "transform", "step 1"]


def test_without_a_second_queue_batches_are_placed_as_ever():
    with Tuned(PREFETCH, device="cpu") as tuned:
        loader = tuned.loader(numbers())
        assert loader.source is loader.host
        assert len(list(loader)) == 4


def test_a_trial_measures_the_batches_as_the_user_gets_them(device):
    """Staged batches in every phase, samples counted on the host, the cached compute with prefetching, too."""
    steps: list[Any] = []

    def step(batch: Any) -> None:
        steps.append(batch)
        device.give(lambda: time.sleep(0.004))

    counted: list[Any] = []
    workload = make_workload(step, length=4096, count_samples=lambda batch: counted.append(batch) or len(batch[1]))
    session = open_session(workload, device=device, pin_memory=True, device_prefetch=True)
    assert session.ahead == 1
    found, _ = measure(session, Wanted(target=0.5))
    assert found.compute_s is not None
    assert found.compute_s >= 0.003
    assert found.samples_per_step == 8
    assert all(isinstance(batch, list) for batch in [*steps, *counted])
    given = sum(item.endswith("given") for item in device.log)
    assert given >= len(steps)  # each step's batch had its copy on the second queue
