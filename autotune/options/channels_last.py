"""channels_last: memory layout of convolutions, weights and inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from autotune.options.base import Context, Effect, Inapplicable, Option, Value
from autotune.options.snippet import Snippet
from autotune.plan import Plan

if TYPE_CHECKING:
    import torch


class ChannelsLast(Option):
    name = "channels_last"
    help = "lay out images and convolution weights with the channels last"
    default = False
    affects = frozenset({"compute", "memory"})
    order = 30

    def choices(self, context: Context) -> Sequence[Value] | Inapplicable:
        if not {4, 5} & set(context.facts.convolution_ranks):
            return Inapplicable("the model has no 2-d or 3-d convolution")
        return (False, True)

    def expert(self, context: Context) -> Value:
        return 4 in context.facts.convolution_ranks

    def prior(self, value: Value, context: Context) -> Effect:
        # usually a gain, yet grouped and depthwise convolutions can lose a lot
        return Effect(compute=-0.08 if value else 0.0, sd=0.15)

    def apply(self, value: Value, plan: Plan) -> None:
        if value:
            plan.model_transforms.append(convolutions_to_channels_last)
            plan.tensor_transforms.append(tensor_to_channels_last)

    def snippet(self, value: Value) -> Snippet:
        if not value:
            return Snippet()
        return Snippet(
            definitions="CHANNELS_LAST = {4: torch.channels_last, 5: torch.channels_last_3d}  # by rank",
            model="for module in model.modules():\n"
            "    if isinstance(module, torch.nn.modules.conv._ConvNd) and module.weight.dim() in CHANNELS_LAST:\n"
            "        layout = CHANNELS_LAST[module.weight.dim()]\n"
            "        module.weight.data = module.weight.data.contiguous(memory_format=layout)",
            tensor="if tensor.is_floating_point() and tensor.dim() in CHANNELS_LAST:\n"
            "    tensor = tensor.contiguous(memory_format=CHANNELS_LAST[tensor.dim()])",
        )


def convolutions_to_channels_last(model: torch.nn.Module) -> torch.nn.Module:
    """Lay out the weights of 2-d and 3-d convolutions; `model.to()` itself refuses models that have both."""
    from torch import nn

    for module in model.modules():
        if isinstance(module, nn.modules.conv._ConvNd):
            if isinstance(module.weight, nn.parameter.UninitializedParameter):
                _LaidOutOnceThere(module)
            else:
                _lay_out(module)
    return model


class _LaidOutOnceThere:
    """Lays out the weight of a lazy convolution at its first forward, which makes it just before."""

    def __init__(self, module: torch.nn.Module) -> None:
        self._handle = module.register_forward_pre_hook(self)

    def __call__(self, module: torch.nn.Module, inputs: object) -> None:
        self._handle.remove()
        _lay_out(module)


def _lay_out(convolution: torch.nn.Module) -> None:
    weight: torch.Tensor = convolution.weight  # type: ignore[assignment]
    memory_format = _format_for(weight.dim())
    if memory_format is not None:
        weight.data = weight.data.contiguous(memory_format=memory_format)


def tensor_to_channels_last(tensor: torch.Tensor) -> torch.Tensor:
    """Lay out a batch of images or volumes; tensors of other ranks and integers stay as they are."""
    memory_format = _format_for(tensor.dim())
    if memory_format is None or not tensor.is_floating_point():
        return tensor
    return tensor.contiguous(memory_format=memory_format)


def _format_for(rank: int) -> torch.memory_format | None:
    import torch

    return {4: torch.channels_last, 5: torch.channels_last_3d}.get(rank)
