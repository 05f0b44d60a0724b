"""Randomness off: dropout and the like neither draw nor change anything, while the model stays in training mode.

Not by `eval()`: that would also switch off checkpointing and BatchNorm's batch statistics, which are to be checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

DROPOUTS = ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout")
DROP_CLASSES = ("drop", "stochasticdepth")  # parts of class names: DropPath, StochasticDepth, ...
DROP_RATES = ("p", "drop_prob", "drop_rate", "rate")
ATTENTION_DROPOUT = 4  # position of dropout_p in scaled_dot_product_attention


@contextmanager
def quiet(model: nn.Module) -> Iterator[None]:
    """Switch randomness off in `model`, and in torch's own functions for whoever calls them."""
    kept = [(functional, name, getattr(functional, name)) for name in (*DROPOUTS, "scaled_dot_product_attention")]
    attributes = list(_random_attributes(model))
    try:
        for name in DROPOUTS:
            setattr(functional, name, _no_dropout)
        functional.scaled_dot_product_attention = _without_dropout(functional.scaled_dot_product_attention)
        for module, name, _, quiet_value in attributes:
            setattr(module, name, quiet_value)
        yield
    finally:
        for owner, name, function in kept:
            setattr(owner, name, function)
        for module, name, value, _ in attributes:
            setattr(module, name, value)


def _no_dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Keep everything; a new tensor or the same one, as dropout does, so that in-place errors still show."""
    if not training:
        return input
    return input.mul_(1.0) if inplace else input * 1.0


def _without_dropout(attention: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def call(*args: Any, **kwargs: Any) -> Tensor:
        if len(args) > ATTENTION_DROPOUT:
            args = (*args[:ATTENTION_DROPOUT], 0.0, *args[ATTENTION_DROPOUT + 1 :])
        elif "dropout_p" in kwargs:
            kwargs["dropout_p"] = 0.0
        return attention(*args, **kwargs)

    return call


def _random_attributes(model: nn.Module) -> Iterator[tuple[nn.Module, str, Any, Any]]:
    """Yield (module, attribute, value, value without randomness) where a module keeps its randomness in a number."""
    for module in model.modules():
        kind = type(module).__name__.lower()
        if isinstance(module, nn.RNNBase):
            yield module, "dropout", module.dropout, 0.0
        elif not isinstance(module, nn.modules.dropout._DropoutNd) and any(part in kind for part in DROP_CLASSES):
            for name in DROP_RATES:
                value = module.__dict__.get(name)
                if isinstance(value, float) and 0.0 < value <= 1.0:
                    yield module, name, value, 0.0


def batch_norms(model: nn.Module) -> list[nn.Module]:
    """Return the modules whose output for a sample depends on the others in the batch."""
    return [item for item in model.modules() if isinstance(item, torch.nn.modules.batchnorm._BatchNorm)]
