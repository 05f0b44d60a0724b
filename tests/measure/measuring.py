"""What tests of the measurement share: a clock that only steps move, tiny workloads, sessions over them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import Dataset, IterableDataset

from autotune.config import Config
from autotune.device import Device
from autotune.measure.session import Session
from autotune.measure.training import Training
from autotune.records import Limits
from autotune.workload import Workload

HUGE = 1 << 40


class FakeClock:
    """Time that passes only where a test says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class QuickDevice(Device):
    """The CPU with a short warm-up and window, for tests in real time."""

    min_warmup_s = 0.2
    min_window_s = 0.4


class Numbers(Dataset[Any]):
    """Random vectors with a label; `load` is called for each sample read."""

    def __init__(self, length: int, load: Callable[[int], None] = lambda index: None) -> None:
        self.length, self.load = length, load

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        self.load(index)
        return torch.full((4,), float(index % 7)), index % 3


class Flow(IterableDataset[Any]):
    """The same as a stream whose length nobody knows; None: without end."""

    def __init__(self, length: int | None) -> None:
        self.length = length

    def __iter__(self) -> Iterator[tuple[torch.Tensor, int]]:
        index = 0
        while self.length is None or index < self.length:
            yield torch.full((4,), float(index % 7)), index % 3
            index += 1


def make_workload(step: Callable[[Any], None] = lambda batch: None, length: int = 96, **changes: Any) -> Workload:
    """Return a tiny classifier; `step` is called with each batch that it trains on."""

    def training_step(model: nn.Module, batch: Any) -> torch.Tensor:
        step(batch)
        return cross_entropy(model(batch[0]), batch[1])

    parts: dict[str, Any] = {
        "model": lambda: nn.Linear(4, 3),
        "dataset": lambda: Numbers(length),
        "training_step": training_step,
        "optimizer": lambda params: torch.optim.SGD(params, lr=0.01),
    }
    return Workload(**{**parts, **changes})


def open_session(
    workload: Workload,
    *,
    clock: Callable[[], float] = time.perf_counter,
    device: Device | None = None,
    budget_s: float = 2.0,
    **config: Any,
) -> Session:
    """Return a session of one trial in this process."""
    training = Training(workload, Config(**{"batch_size": 8, **config}), device="cpu")
    known = hasattr(training.dataset, "__len__") and not workload.pre_batched
    return Session(
        training=training,
        device=device or Device(torch.device("cpu")),
        limits=Limits(host_bytes=HUGE, budget_s=budget_s),
        dataset_length=len(training.dataset) if known else None,
        clock=clock,
    )


def remember(session: Session, step_s: float, wait_s: float = 0.0) -> None:
    """Make the session believe that its last warm-up steps took so long."""
    session.recent.extend([(step_s, wait_s)] * 5)
