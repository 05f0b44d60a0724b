"""What the probe finds out about a step: its time, and what decides how it may be compiled."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from autotune.batches import clone
from autotune.device import Device
from autotune.errors import WorkloadError
from autotune.measure.training import Training


def time_steps(step: Callable[[Any], Tensor | None], batches: list[Any], device: Device) -> float:
    """Step on two batches; return the seconds of the last step, when caches and optimizer state are there.

    Raises:
        WorkloadError: a loss is no finite number.
    """
    took = 0.0
    for batch in batches[:2] if len(batches) > 1 else batches * 2:
        given = clone(batch)
        device.synchronize()
        at = time.perf_counter()
        loss = step(given)
        device.synchronize()
        took = time.perf_counter() - at
        if loss is not None and not torch.isfinite(loss):
            raise WorkloadError(f"the loss is {loss.item()} in the first steps", hint="It must be a finite number.")
    return took


@dataclass(frozen=True)
class Habits:
    """What one more step does that decides how it may be compiled."""

    draws_random: bool
    synchronizes: tuple[str, ...]
    """places where the model waits for the device; what the loop around it does is not compiled"""
    moves_parameters: bool

    @classmethod
    def of(cls, training: Training, device: Device, batch: Any) -> Habits:
        placed = training.loader.place(clone(batch))
        addresses = [item.data_ptr() for item in training.model.parameters()]
        states = [torch.get_rng_state(), device.random_state()]
        with _waits_of_models(training.model, device) as found:
            training.step(placed)
        later = [torch.get_rng_state(), device.random_state()]
        return cls(
            draws_random=not all(torch.equal(before, after) for before, after in zip(states, later, strict=True)),
            synchronizes=tuple(f"{file}, line {line}" for file, line in found),
            moves_parameters=addresses != [item.data_ptr() for item in training.model.parameters()],
        )


@contextmanager
def _waits_of_models(model: nn.Module, device: Device) -> Iterator[list[tuple[str, int]]]:
    """Yield a list that has, afterwards, the places at which a forward waited for the device."""
    found: list[tuple[str, int]] = []
    seen: list[list[tuple[str, int]]] = []
    depth, watching = 0, ExitStack()

    def begin(*_: Any) -> None:
        nonlocal depth
        depth += 1
        if depth == 1:
            seen.append(watching.enter_context(device.synchronisations()))

    def end(*_: Any) -> None:
        nonlocal depth
        depth -= 1
        if depth == 0:
            watching.close()

    # a script's several models come as a list of modules, which is never called itself
    models = list(model) if type(model) is nn.ModuleList else [model]
    handles = [item.register_forward_pre_hook(begin) for item in models]
    handles += [item.register_forward_hook(end, always_call=True) for item in models]
    try:
        with watching:
            yield found
    finally:
        for handle in handles:
            handle.remove()
        found += [place for places in seen for place in places]
