"""What the probe finds out about a step that decides how it may be compiled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from autotune.batches import clone
from autotune.device import Device
from autotune.measure.training import Training


@dataclass(frozen=True)
class Habits:
    """What one more step does that decides how it may be compiled."""

    draws_random: bool
    synchronizes: tuple[str, ...]
    """places where it waits for the device"""
    moves_parameters: bool

    @classmethod
    def of(cls, training: Training, device: Device, batch: Any) -> Habits:
        placed = training.loader.place(clone(batch))
        addresses = [item.data_ptr() for item in training.model.parameters()]
        states = [torch.get_rng_state(), device.random_state()]
        with device.synchronisations() as found:
            training.step(placed)
        later = [torch.get_rng_state(), device.random_state()]
        return cls(
            draws_random=not all(torch.equal(before, after) for before, after in zip(states, later, strict=True)),
            synchronizes=tuple(f"{file}, line {line}" for file, line in found),
            moves_parameters=addresses != [item.data_ptr() for item in training.model.parameters()],
        )
