"""What the probe finds out about the loss: how it reduces over the samples of a batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from autotune.batches import clone, map_tensors, tensors
from autotune.measure.training import Training, seed_all

TOLERANCE = 3e-5  # relative: float32 sums differ by less, and a loss averaged over tokens by little more


def loss_reduction(training: Training, batch: Any) -> str:
    """Return "mean", "sum" or "other", by comparing a batch's loss with those of its halves; empty where unknown.

    Evaluation mode keeps BatchNorm and dropout out of it.
    """
    if training.workload.own_step:
        return ""
    model = training.model
    model.eval()
    try:
        return _compare(training, batch)
    except Exception:
        return ""  # a model that has no loss in evaluation mode, a batch that cannot be cut: not worth an error
    finally:
        model.train()


def _compare(training: Training, batch: Any) -> str:
    sizes = [item.size(0) for item in tensors(batch) if item.dim()]
    size = max(set(sizes), key=sizes.count, default=0) // 2 * 2
    if size < 2 or any(item not in (size, size + 1) for item in sizes):
        return ""

    def part(start: int, end: int) -> Callable[[Tensor], Tensor]:
        return lambda item: item[start:end] if item.dim() else item

    def loss_of(start: int, end: int) -> float:
        seed_all(0)
        placed = training.loader.place(map_tensors(clone(batch), part(start, end)))
        with torch.no_grad(), training.tuned.autocast():
            return float(training.loss_step(training.model, placed))

    whole, first, second = loss_of(0, size), loss_of(0, size // 2), loss_of(size // 2, size)
    near = TOLERANCE * max(abs(whole), abs(first), abs(second))
    if abs(whole - (first + second) / 2) <= near:
        return "mean"
    return "sum" if abs(whole - first - second) <= near else "other"
