"""Gradients set to zeros instead of None: zero_grad(set_to_none=False). Technique 16."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from autotune.doctor.context import Context
from autotune.doctor.findings import Finding
from autotune.doctor.timing import quickest


def check(context: Context) -> Iterator[Finding]:
    lines = [line for line, times in context.trace.full_zeros.items() if times >= context.trace.steps]
    if not lines:
        return
    sizes = [item for item in context.training.model.parameters() if item.requires_grad]
    gradients = [torch.zeros_like(item) for item in sizes]

    def zero_and_add() -> None:  # what None saves: a pass to write zeros, and one to add to them
        torch._foreach_zero_(gradients)
        torch._foreach_add_(gradients, gradients)

    gain = context.gain(quickest(zero_and_add, context.session.device.synchronize))
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
