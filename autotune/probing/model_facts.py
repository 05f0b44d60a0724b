"""What the probe finds out about a model by looking at it."""

from __future__ import annotations

from typing import Any

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd


def model_facts(model: nn.Module) -> dict[str, Any]:
    """Return the fields of `Facts` that the model decides."""
    parameters = list(model.parameters())
    return {
        "model": type(model).__name__,
        "parameters": sum(item.numel() for item in parameters),
        "trainable_parameters": sum(item.numel() for item in parameters if item.requires_grad),
        "parameter_bytes": sum(item.numel() * item.element_size() for item in parameters),
        "trained_formats": tuple(
            sorted(
                {
                    str(item.dtype).removeprefix("torch.")
                    for item in parameters
                    if item.requires_grad and item.is_floating_point()
                }
            )
        ),
        "convolution_ranks": tuple(
            sorted({module.weight.dim() for module in model.modules() if isinstance(module, _ConvNd)})
        ),
        "batchnorm": any(isinstance(module, _BatchNorm) for module in model.modules()),
    }
