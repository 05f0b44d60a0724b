"""Whether a trial trained at all: the broken configs are the fast ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from autotune.errors import WorkloadError
from autotune.implementations import skipped
from autotune.measure.training import Training


class NonFinite(Exception):
    """The loss is not a number."""


class TrainsNothing(WorkloadError):
    """Steps ran, yet no parameter changed or a gradient is missing."""


class UpdateCounter:
    """Counts optimizer updates that really happen, and sees which parameters have gradients in the first."""

    def __init__(self, training: Training) -> None:
        self.updates = 0
        self.gradient_names: tuple[str, ...] = ()
        self._training = training
        self._handles: list[Any] = []
        for optimizer in training.optimizers:
            self._handles.append(optimizer.register_step_pre_hook(self._look))
            self._handles.append(optimizer.register_step_post_hook(self._count))

    def remove(self) -> None:
        """Take the hooks away: the timed steps run without them."""
        for handle in self._handles:
            handle.remove()

    def _look(self, *_: Any) -> None:
        if self.updates < len(self._training.optimizers):
            found = {name for name, item in self._training.model.named_parameters() if item.grad is not None}
            self.gradient_names = tuple(sorted(found.union(self.gradient_names)))

    def _count(self, optimizer: Optimizer, *_: Any) -> None:
        self.updates += not skipped(optimizer)

    @property
    def effective(self) -> int:
        """Updates that each optimizer has made, at least."""
        return self.updates // max(1, len(self._training.optimizers))


class ChangeWatch:
    """Tells whether parameters changed, from a few values of each: a broken config can be a fast one."""

    SAMPLED = 1024

    def __init__(self, parameters: dict[str, nn.Parameter]) -> None:
        self._parameters = parameters
        self._before = [self._values(item) for item in parameters.values()]

    def changed(self) -> bool:
        pairs = zip(self._before, self._parameters.values(), strict=True)
        return any(not torch.equal(before, self._values(item)) for before, item in pairs)

    def _values(self, item: nn.Parameter) -> Tensor:
        return item.detach().flatten()[: self.SAMPLED].clone()


def finite(losses: Sequence[float]) -> bool:
    """Whether every loss is a number."""
    return all(np.isfinite(losses))
