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
    """What the model does in one more step that decides how it may be compiled; the loop around it is not compiled."""

    draws_random: bool
    synchronizes: tuple[str, ...]
    """places where the model waits for the device"""
    moves_parameters: bool

    @classmethod
    def of(cls, training: Training, device: Device, batch: Any) -> Habits:
        placed = training.loader.place(clone(batch))
        addresses = [item.data_ptr() for item in training.model.parameters()]
        with _forwards(training.model, device) as seen:
            training.step(placed)
        return cls(
            draws_random=any(forward.draws_random for forward in seen),
            synchronizes=tuple(f"{file}, line {line}" for forward in seen for file, line in forward.waits),
            moves_parameters=addresses != [item.data_ptr() for item in training.model.parameters()],
        )


@dataclass
class _Forward:
    """One call of a model."""

    waits: list[tuple[str, int]]
    """file and line of each wait for the device"""
    states: list[Tensor]
    """of the random numbers, before it"""
    draws_random: bool = False


@contextmanager
def _forwards(model: nn.Module, device: Device) -> Iterator[list[_Forward]]:
    """Yield a list that has, afterwards, the outermost calls of the model, or of those that it lists."""
    seen: list[_Forward] = []
    depth, watching = 0, ExitStack()

    def states() -> list[Tensor]:
        return [torch.get_rng_state(), device.random_state()]

    def begin(*_: Any) -> None:
        nonlocal depth
        depth += 1
        if depth == 1:
            before = states()
            seen.append(_Forward(watching.enter_context(device.synchronisations()), before))

    def end(*_: Any) -> None:
        nonlocal depth
        depth -= 1
        if depth == 0:
            watching.close()
            last = seen[-1]
            last.draws_random = not all(map(torch.equal, last.states, states()))

    # a script's several models come as a list of modules, which is never called itself
    models = list(model) if type(model) is nn.ModuleList else [model]
    handles = [item.register_forward_pre_hook(begin) for item in models]
    handles += [item.register_forward_hook(end, always_call=True) for item in models]
    try:
        with watching:
            yield seen
    finally:
        for handle in handles:
            handle.remove()
