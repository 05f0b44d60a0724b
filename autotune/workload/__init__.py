"""The workload: what the user trains, as factories."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from autotune.errors import WorkloadError

__all__ = ["ROLES", "Workload"]

FACTORY_ROLES = ("model", "dataset", "loss", "training_step", "optimizer", "loader")
DETAIL_ROLES = ("collate_fn", "sampler", "batch_transform", "count_samples")
ROLES = FACTORY_ROLES + DETAIL_ROLES
"""what a script may provide, by the names of `Workload`'s fields"""


@dataclass(kw_only=True)
class Workload:
    """What a script trains.

    Each factory builds a new object every time it is called; nothing is built before a trial needs it.
    """

    model: Callable[[], Any]
    """() -> nn.Module"""
    dataset: Callable[..., Any] | None = None
    """() -> Dataset or IterableDataset; (batch_size) -> one that yields whole batches"""
    loss: Callable[[Any, Any], Any] | None = None
    """(output, target) -> scalar"""
    training_step: Callable[..., Any] | None = None
    """(model, batch) -> scalar; or (tuned, model, batch), which does its own backward and optimizer steps"""
    optimizer: Callable[[Any], Any] | None = None
    """(parameters) -> optimizer or several; a first argument called `model` gets the model instead"""
    loader: Callable[..., Any] | None = None
    """(batch_size, **loader_options) -> iterable of batches, for loaders of your own"""
    collate_fn: Callable[[list[Any]], Any] | None = None
    sampler: Callable[[Any], Any] | None = None
    """(dataset) -> Sampler; without one, a map-style dataset is shuffled"""
    batch_transform: Callable[[Any], Any] | None = None
    """(batch on the device) -> batch: part of the step, for augmentation on the device"""
    checkpoint_blocks: str | None = None
    """module path of the blocks that may be recomputed; found by looking where not given"""
    count_samples: Callable[[Any], int] | None = None
    """(batch) -> samples in it, where that is not the batch size"""
    drop_last: bool = False
    baseline: Mapping[str, Any] = field(default_factory=dict)
    """what you run today: {"batch_size": 64, "num_workers": 2}; the rest is PyTorch's defaults"""

    def __post_init__(self) -> None:
        for role in ROLES:
            value = getattr(self, role)
            if value is not None and not callable(value):
                raise WorkloadError(
                    f"Workload({role}=...) takes a function, not {_article(value)}",
                    hint=f"Give a function that builds it: {role}=lambda: ...",
                )
        if self.dataset is None and self.loader is None:
            raise WorkloadError("a Workload needs dataset= or loader=")
        if self.loss is not None and self.training_step is not None:
            raise WorkloadError("a Workload takes loss= or training_step=, not both")

    @property
    def own_step(self) -> bool:
        """Whether the training step does its own backward and optimizer steps."""
        return self.training_step is not None and positional_arguments(self.training_step) >= 3

    @property
    def pre_batched(self) -> bool:
        """Whether the dataset factory takes the batch size and yields whole batches."""
        return self.dataset is not None and positional_arguments(self.dataset) >= 1


def positional_arguments(function: Callable[..., Any]) -> int:
    """Return how many positional arguments without a default `function` takes; 0 where nobody can tell."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return 0
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(item.kind in kinds and item.default is inspect.Parameter.empty for item in parameters)


def first_argument(function: Callable[..., Any]) -> str:
    """Return the name of the first argument of `function`; empty where nobody can tell."""
    try:
        return next(iter(inspect.signature(function).parameters), "")
    except (TypeError, ValueError):
        return ""


def _article(value: object) -> str:
    name = type(value).__name__
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"
