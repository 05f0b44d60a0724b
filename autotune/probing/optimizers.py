"""What the probe finds out about the optimizers: which implementations of torch.optim they take, tried out."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.optim import Optimizer

from autotune.config import Config
from autotune.errors import AutotuneError
from autotune.implementations import implementations
from autotune.measure.training import Training
from autotune.options.optimizer_impl import FLAGS
from autotune.tuned import Tuned
from autotune.workload.script import brief

TOLERANCE = 1e-3  # of two first updates, relative to the largest change of the parameter


def probe_implementations(training: Training) -> tuple[tuple[str, ...], str | None]:
    """Return the implementations that do something else than the default and update alike, or why there are none."""
    names = ", ".join(dict.fromkeys(training.optimizer_kinds))
    found: list[str] = []
    reasons: list[str] = []
    for name in FLAGS:
        try:
            reason = _why_not(training, name, names)
        except AutotuneError:
            raise
        except Exception as error:
            reason = f"{names} refuses {name}: {brief(error)}"
        if reason is None:
            found.append(name)
        elif reason:
            reasons.append(reason)
    if not found and not reasons:
        return (), f"{names} takes neither foreach nor fused"
    return tuple(found), None if found else "; ".join(dict.fromkeys(reasons))


def _why_not(training: Training, name: str, names: str) -> str | None:
    """Return why one implementation is no choice; empty where no optimizer takes it."""
    made = training.build_optimizers(Tuned(Config(optimizer_impl=name), device=str(training.tuned.device)))
    if not any(name in implementations(item) for item in made):
        return ""
    usual = training.build_optimizers(Tuned(Config(), device=str(training.tuned.device)))
    if [implementations(item) for item in made] == [implementations(item) for item in usual]:
        return f"{names} runs {name} already"
    expected, changed = _updated(usual), _updated(made)
    return None if _alike(expected, changed) else f"{name} of {names} updates otherwise than its default"


def _updated(optimizers: Sequence[Optimizer]) -> list[tuple[Tensor, Tensor]]:
    """Return each parameter before and after one step on made-up gradients; all are left as they were."""
    parameters = {id(item): item for one in optimizers for group in one.param_groups for item in group["params"]}
    before = [item.detach().clone() for item in parameters.values()]
    gradients = [item.grad for item in parameters.values()]  # a loop that zeroes them by hand needs them
    numbers = torch.Generator().manual_seed(0)
    try:
        for item in parameters.values():
            item.grad = torch.randn(item.shape, generator=numbers).to(item)
        for optimizer in optimizers:
            optimizer.step()
        after = [item.detach().clone() for item in parameters.values()]
    finally:
        for item, kept, gradient in zip(parameters.values(), before, gradients, strict=True):
            item.grad = gradient
            item.data.copy_(kept)
    return list(zip(before, after, strict=True))


def _alike(expected: list[tuple[Tensor, Tensor]], changed: list[tuple[Tensor, Tensor]]) -> bool:
    pairs = ((before, after, other) for (before, after), (_, other) in zip(expected, changed, strict=True))
    return all(
        bool((after - other).abs().max() <= TOLERANCE * (after - before).abs().max())
        for before, after, other in pairs
        if after.numel()
    )
