"""What a step does that decides how it may be compiled: the model's own doing, not that of the loop around it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from autotune.config import Config
from autotune.device import Device
from autotune.measure.training import Training
from autotune.probing.habits import Habits
from autotune.workload import Workload


class Noting(Device):
    """A device that notes who waits for it, while somebody looks."""

    def __init__(self) -> None:
        super().__init__(torch.device("cpu"))
        self.open: list[list[tuple[str, int]]] = []

    @contextmanager
    def synchronisations(self) -> Iterator[list[tuple[str, int]]]:
        found: list[tuple[str, int]] = []
        self.open.append(found)
        try:
            yield found
        finally:
            self.open.remove(found)

    def wait(self, place: str) -> None:
        for found in self.open:
            found.append((place, 1))


@pytest.fixture
def device() -> Noting:
    return Noting()


class Part(nn.Module):
    """A layer that waits for the device in its forward, if it is to."""

    def __init__(self, device: Noting, place: str = "") -> None:
        super().__init__()
        self.layer, self.device, self.place = nn.Linear(3, 3), device, place

    def forward(self, x: Tensor) -> Tensor:
        if self.place:
            self.device.wait(self.place)
        return self.layer(x)


def habits(device: Noting, model: nn.Module, step: Any) -> Habits:
    data = [(torch.randn(3), torch.tensor(0)) for _ in range(16)]
    workload = Workload(model=lambda: model, dataset=lambda: data, training_step=step, baseline={"batch_size": 4})
    training = Training(workload, Config(batch_size=4), device="cpu", seed=0)
    return Habits.of(training, device, next(iter(training.loader.host)))


def test_what_the_loop_waits_for_is_no_habit_of_the_model(device: Noting) -> None:
    def step(model: Any, batch: Any) -> Tensor:
        device.wait("copy")
        loss = model(batch[0]).mean()
        device.wait("item")
        return loss

    assert habits(device, Part(device), step).synchronizes == ()
    assert habits(device, Part(device, "inside"), step).synchronizes == ("inside, line 1",)
    assert device.open == []


def test_random_numbers_of_the_loop_are_no_habit_of_the_model(device: Noting) -> None:
    def step(model: Any, batch: Any) -> Tensor:
        return model(batch[0] + torch.randn_like(batch[0])).mean()  # as a diffusion's noise, or an evaluation's order

    assert not habits(device, Part(device), step).draws_random
    assert habits(device, nn.Sequential(Part(device), nn.Dropout()), step).draws_random


def test_several_models_and_their_parts_count_once_each(device: Noting) -> None:
    models = nn.ModuleList([nn.Sequential(Part(device, "a"), Part(device, "b")), Part(device, "c")])

    def step(models: Any, batch: Any) -> Tensor:
        return models[1](models[0](batch[0])).mean()

    assert habits(device, models, step).synchronizes == ("a, line 1", "b, line 1", "c, line 1")
    assert not any(module._forward_pre_hooks or module._forward_hooks for module in models.modules())
