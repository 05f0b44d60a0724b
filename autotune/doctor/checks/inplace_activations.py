"""Activations that could work in place. Technique 9."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd

from autotune.doctor.context import Context
from autotune.doctor.findings import Finding, Sureness

BY_OUTPUT = (nn.ReLU, nn.ReLU6, nn.Hardtanh, nn.LeakyReLU, nn.ELU)
"""activations whose backward pass needs their output alone"""
BEFORE = (_ConvNd, nn.Linear, _BatchNorm)
"""layers whose backward pass does not need their output"""


def check(context: Context) -> Iterator[Finding]:
    model = context.training.model
    counted = context.calls.counted()
    calls = context.calls.per_step()
    readers: dict[str, int] = {}
    for call in calls:
        if call.follows is not None and not any(True for _ in call.module.children()):
            readers[call.follows] = readers.get(call.follows, 0) + 1
    found = {}
    for call in calls:
        if not isinstance(call.module, BY_OUTPUT) or call.module.inplace or call.follows is None:
            continue
        before = model.get_submodule(call.follows)
        # an output that something else reads as well must stay as it is
        if isinstance(before, BEFORE) and readers[call.follows] == 1 and counted[call.name] == 1:
            found[call.name] = call
    if not found:
        return
    modules = [model.get_submodule(name) for name in found]
    saved = max(call.bytes for call in found.values())
    gain = context.gain(0.0, lambda: _in_place(modules))
    worth = context.worth(gain)
    if worth is not None:
        yield Finding(
            check="inplace_activations",
            gives=worth,
            seen=f"{len(found)} activations write a new tensor where they could overwrite their input "
            f"(the largest has {saved >> 20} MiB)",
            where=tuple(context.place(name) for name in found),
            remedy=(f"nn.{type(modules[0]).__name__}(inplace=True)  # not where the input is used again",),
            gain=gain,
            sure=Sureness.LIKELY,
            why="less memory to find, and less of it to move through the caches",
        )


@contextmanager
def _in_place(modules: list[nn.Module]) -> Iterator[None]:
    for module in modules:
        module.inplace = True  # type: ignore[assignment]
    try:
        yield
    finally:
        for module in modules:
            module.inplace = False  # type: ignore[assignment]
