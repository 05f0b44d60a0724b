"""Sizes that are no multiple of 8 under half precision. Technique 28."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from math import ceil

import torch
from torch import nn
from torch.nn.modules.conv import _ConvNd

from autotune.doctor.calls import Call
from autotune.doctor.context import Context
from autotune.doctor.findings import Finding, Gain, Gives

UNIT = 8  # values of two bytes that a matrix unit takes at a time
MIN_SIZE = 16  # below it a layer is as wide as its data have channels, or classes


def check(context: Context) -> Iterator[Finding]:
    found: dict[str, tuple[str, float]] = {}
    for call in context.calls.per_step():
        sizes = _odd_sizes(call.module)
        if sizes and call.dtype in (torch.bfloat16, torch.float16):
            shown = ", ".join(f"{name} {size}, padded {_padded(size)}" for name, size in sizes.items())
            saved = _saved_s(context, call)
            found[call.name] = (shown, found.get(call.name, ("", 0.0))[1] + saved)
    if not found:
        return
    saved_s = sum(saved for _, saved in found.values() if saved > 0)
    # forward was timed; backward has two products of the same size
    gain = context.gain(3 * saved_s)
    worth = context.worth(gain)
    if worth is None:
        if context.on_accelerator:
            return
        worth, gain = Gives.ACCELERATOR, Gain()
    names = sorted(found, key=lambda name: -found[name][1])
    yield Finding(
        check="padded_sizes",
        gives=worth,
        seen=f"{len(found)} layers have sizes that are no multiple of {UNIT} under half precision: "
        f"{names[0]} ({found[names[0]][0]})",
        where=tuple(f"{context.place(name)}: {found[name][0]}" for name in names),
        remedy=(f"size = {UNIT} * math.ceil(size / {UNIT})  # for a vocabulary: the rest of the rows stays unused",),
        gain=gain,
        why="an accelerator's matrix units work on blocks of 8; here the layers' products were timed with both sizes",
    )


def _odd_sizes(module: nn.Module) -> dict[str, int]:
    if isinstance(module, nn.Linear):
        sizes = {"in_features": module.in_features, "out_features": module.out_features}
    elif isinstance(module, _ConvNd) and module.groups == 1:
        sizes = {"in_channels": module.in_channels, "out_channels": module.out_channels}
    else:
        return {}
    return {name: size for name, size in sizes.items() if size % UNIT and size > MIN_SIZE}


def _padded(size: int) -> int:
    return UNIT * ceil(size / UNIT)


def _saved_s(context: Context, call: Call) -> float:
    """Return the seconds that the layer's matrix product takes more than one of the padded size."""
    module = call.module
    weight = module.weight
    assert isinstance(weight, torch.Tensor)
    out, inner = weight.shape[0], weight[0].numel()
    area = weight[0, 0].numel() if weight.dim() > 2 else 1
    rows = max(1, call.elements // out)
    device = context.session.device.torch
    took = []
    for out_size, in_size in ((out, inner), (_pad_if_odd(out), _pad_if_odd(inner // area) * area)):
        a = torch.ones(rows, in_size, dtype=call.dtype, device=device)
        b = torch.ones(out_size, in_size, dtype=call.dtype, device=device)
        took.append(context.seconds_of(partial(torch.mm, a, b.t())))
    return took[0] - took[1]


def _pad_if_odd(size: int) -> int:
    return _padded(size) if size > MIN_SIZE else size
