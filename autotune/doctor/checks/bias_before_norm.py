"""Biases that the normalisation after them takes away again. Technique 29."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd
from torch.nn.modules.instancenorm import _InstanceNorm

from autotune.doctor.calls import Call
from autotune.doctor.context import Context
from autotune.doctor.findings import Finding
from autotune.words.figures import memory


def check(context: Context) -> Iterator[Finding]:
    model = context.training.model
    calls = context.calls.per_step()
    made = {call.name: call for call in calls}
    counted = context.calls.counted()
    found: dict[str, Call] = {}
    for call in calls:
        if not _takes_mean(call) or call.follows is None or counted[call.follows] != 1:
            continue
        before = model.get_submodule(call.follows)
        if isinstance(before, _ConvNd | nn.Linear) and before.bias is not None and before.bias.requires_grad:
            found[call.follows] = made[call.follows]
    if not found:
        return
    layers: list[Any] = [model.get_submodule(name) for name in found]
    parameters = sum(int(layer.bias.numel()) for layer in layers)
    # the parameter, its gradient, and what an optimizer such as Adam keeps of it
    size = parameters * 4 * 4
    gain = context.gain(sum(_bias_s(context, call) for call in found.values()), lambda: _without_bias(layers))
    worth = context.worth(gain, certain=True)
    if worth is None:
        return
    yield Finding(
        check="bias_before_norm",
        gives=worth,
        seen=f"{len(found)} layers add a bias whose effect the normalisation after them removes "
        f"({parameters} parameters, {memory(size)} with gradients and optimizer state)",
        where=tuple(context.place(name) for name in found),
        remedy=(f"{type(layers[0]).__name__}(..., bias=False)",),
        gain=gain,
        why="its gradient is a sum over the whole output, computed in each step, and comes to zero",
    )


def _takes_mean(call: Call) -> bool:
    """Whether the module subtracts each channel's own mean in training."""
    if isinstance(call.module, _BatchNorm):
        return call.training or not call.module.track_running_stats
    return isinstance(call.module, _InstanceNorm)


def _bias_s(context: Context, call: Call) -> float:
    """Return the seconds of adding a bias to the output, and of summing the gradient over all but the channels."""
    gradient = torch.ones(call.shape, dtype=call.dtype, device=context.session.device.torch)
    channel = gradient.dim() - 1 if isinstance(call.module, nn.Linear) else 1
    others = [axis for axis in range(gradient.dim()) if axis != channel]
    bias = gradient.sum(others, keepdim=True)

    def add_and_sum() -> None:
        gradient.add_(bias, alpha=0)
        gradient.sum(others)

    return context.seconds_of(add_and_sum)


@contextmanager
def _without_bias(layers: list[Any]) -> Iterator[None]:
    kept = [layer.bias for layer in layers]
    for layer in layers:
        layer.bias = None
    try:
        yield
    finally:
        for layer, bias in zip(layers, kept, strict=True):
            layer.bias = bias
