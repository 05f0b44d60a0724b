"""Whether a trial trained at all: the broken configs are the fast ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.optim import Optimizer

from autotune.errors import WorkloadError
from autotune.implementations import skipped
from autotune.measure.training import Training


class NonFinite(Exception):
    """The loss is not a number."""


class TrainsNothing(WorkloadError):
    """Steps ran, yet no parameter changed or a gradient is missing."""


class UpdateCounter:
    """Counts optimizer updates that really happen, and sees in each which parameters have gradients."""

    def __init__(self, training: Training, watch: ChangeWatch | None = None) -> None:
        """`watch` is told of each update that comes."""
        self.updates = 0
        self.with_gradient: set[str] = set()
        """names of the parameters that had a gradient in some update"""
        self._without: set[str] = set()
        """of those that had none in some update of their optimizer"""
        self._training, self._watch = training, watch
        self._names = {item: name for name, item in training.model.named_parameters()}
        self._handles: list[Any] = []
        for optimizer in training.optimizers:
            self._handles.append(optimizer.register_step_pre_hook(self._look))
            self._handles.append(optimizer.register_step_post_hook(self._count))

    def remove(self) -> None:
        """Take the hooks away: the timed steps run without them."""
        for handle in self._handles:
            handle.remove()

    def _look(self, optimizer: Optimizer, *_: Any) -> None:
        self.with_gradient.update(name for item, name in self._names.items() if item.grad is not None)
        own = (item for group in optimizer.param_groups for item in group["params"])
        self._without.update(self._names[item] for item in own if item.grad is None and item in self._names)
        if self.updates and self._watch is not None:
            self._watch.before_update()

    def _count(self, optimizer: Optimizer, *_: Any) -> None:
        self.updates += not skipped(optimizer)

    @property
    def effective(self) -> int:
        """Updates of an optimizer, in the mean over all: one may step far more often than another, or never."""
        return self.updates // max(1, len(self._training.optimizers))

    @property
    def gradient_names(self) -> tuple[str, ...]:
        """Parameters that had a gradient in every update: a step may leave out layers, experts and heads."""
        return tuple(sorted(self.with_gradient - self._without))


class ChangeWatch:
    """Tells whether parameters changed, from a few values of each: a broken config can be a fast one."""

    SAMPLED = 1024

    def __init__(self, parameters: Mapping[str, Tensor]) -> None:
        self._parameters = list(parameters.values())
        self._seen = False
        self._look_at([0] * len(self._parameters))

    def changed(self) -> bool:
        self._seen = self._seen or any(not torch.equal(then, self._values(*place)) for place, then in self._before)
        return self._seen

    def before_update(self) -> None:
        """Look where the coming update will show, if none did so far: it may touch a few rows of a large table."""
        if not self.changed():
            self._look_at([where_gradient(item) for item in self._parameters])

    def _look_at(self, starts: list[int]) -> None:
        places = zip(self._parameters, starts, strict=True)
        self._before = [(place, self._values(*place)) for place in places]

    def _values(self, item: Tensor, start: int) -> Tensor:
        return item.detach().flatten()[start : start + self.SAMPLED].clone()


def where_gradient(item: Tensor) -> int:
    """Return the place in the flattened parameter where its gradient is largest; 0 where it has none."""
    grad = item.grad
    if grad is None or grad.is_complex():
        return 0
    if not grad.is_sparse:
        return _largest(grad)
    rows = grad._values()
    if not rows.numel():
        return 0
    row = grad._indices()[0, _largest(rows) // rows[0].numel()]
    return int(row) * item[0].numel()


def _largest(values: Tensor) -> int:
    """Return the place of the largest value, or of the smallest where none is above 0: a copy of all is too much.

    0 where there are none: a parameter may be empty.
    """
    if not values.numel():
        return 0
    place = int(values.argmax())
    return place if values.flatten()[place] > 0 else int(values.argmin())


def finite(losses: Sequence[float]) -> bool:
    """Whether every loss is a number."""
    return all(np.isfinite(losses))
