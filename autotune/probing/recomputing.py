"""Whether a model's chain of blocks can be recomputed: tried out, gradients compared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from autotune.checkpointing import Chain, checkpoint_chain, find_chain
from autotune.workload.script import brief

GRADIENT_TOLERANCE = 1e-3  # of recomputed against kept, relative to the largest gradient of the parameter, in fp32

Gradients = dict[str, Tensor]


def find_recomputable(
    model: nn.Module, gradients: Callable[[], Gradients], path: str | None = None
) -> tuple[Chain | None, str | None]:
    """Return the model's chain that can be recomputed, or why none can. The model is left with it recomputed.

    Args:
        gradients: those of one step, from the same state and random numbers each time.
        path: of the chain, where the user names it.
    """
    chain = find_chain(model, path)
    if chain is None:
        return None, "the model has no chain of repeated blocks, and no nn.Sequential of four layers"
    if any("forward" in block.__dict__ for block in [chain.container, *chain.blocks]):
        return chain, f"the blocks of {chain.path or 'the model'} have a forward of their own already"
    try:
        return chain, _why_not(model, chain, gradients, path)
    except Exception as error:
        return chain, f"recomputing {chain.path or 'the model'} fails: {brief(error)}"


def _why_not(model: nn.Module, chain: Chain, gradients: Callable[[], Gradients], path: str | None) -> str | None:
    """Compare the gradients with and without recomputation, under the same random numbers."""
    calls = 0

    def count(*_: Any) -> None:
        nonlocal calls
        calls += 1

    kept = gradients()
    again = gradients()
    name = chain.path or "the model"
    if differ(kept, again):
        return f"the gradients of {name} are not repeatable, so that recomputation cannot be checked"
    handles = [module.register_forward_hook(count) for module in [chain.container, *chain.blocks]]
    checkpoint_chain(model, len(chain), path)
    recomputed = gradients()
    for handle in handles:
        handle.remove()
    if calls == 0:
        return f"the model never calls the blocks of {name} as a whole"
    if differ(kept, recomputed):
        return f"recomputing {name} changes its gradients: a block keeps state between calls"
    return None


def differ(first: Gradients, second: Gradients) -> bool:
    """Whether two steps have other gradients, beyond rounding."""
    if first.keys() != second.keys():
        return True
    for name, gradient in first.items():
        if gradient.numel() == 0:  # which has no largest
            continue
        scale = gradient.abs().max().clamp_min(torch.finfo(gradient.dtype).tiny)
        if not (gradient - second[name]).abs().max() <= GRADIENT_TOLERANCE * scale:
            return True
    return False
