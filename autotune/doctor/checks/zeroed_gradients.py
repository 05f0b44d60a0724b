"""Gradients set to zeros instead of None: zero_grad(set_to_none=False). Technique 16."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn
from torch.optim import Optimizer

from autotune.doctor.context import Context
from autotune.doctor.findings import Finding


def check(context: Context) -> Iterator[Finding]:
    lines = [line for line, times in context.trace.full_zeros.items() if times >= context.trace.steps]
    if not lines:
        return
    sizes = [item for item in context.training.model.parameters() if item.requires_grad]
    gradients = [torch.zeros_like(item) for item in sizes]

    def zero_and_add() -> None:  # what None saves: a pass to write zeros, and one to add to them
        torch._foreach_zero_(gradients)
        torch._foreach_add_(gradients, gradients)

    gain = context.gain(context.seconds_of(zero_and_add), _to_none)
    worth = context.worth(gain, certain=True)
    if worth is not None:
        yield Finding(
            check="zeroed_gradients",
            gives=worth,
            seen=f"{len(gradients)} gradients are filled with zeros in each step, and then added to",
            where=tuple(str(line) for line in lines),
            remedy=("optimizer.zero_grad()  # set_to_none=True is the default",),
            gain=gain,
            why="the first gradient of a step then takes the place of None, without a pass over memory",
        )


@contextmanager
def _to_none() -> Iterator[None]:
    """Let every zero_grad set gradients to None, whatever it is asked for."""
    zero, module_zero = Optimizer.zero_grad, nn.Module.zero_grad
    Optimizer.zero_grad = lambda self, set_to_none=True: zero(self)  # type: ignore[method-assign]
    nn.Module.zero_grad = lambda self, set_to_none=True: module_zero(self)  # type: ignore[method-assign]
    try:
        yield
    finally:
        Optimizer.zero_grad = zero  # type: ignore[method-assign]
        nn.Module.zero_grad = module_zero  # type: ignore[method-assign]
