"""The workload: what the user trains, as factories."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from autotune.config import Config
from autotune.errors import ConfigError, WorkloadError

__all__ = ["ROLES", "Workload"]

FACTORY_ROLES = ("model", "dataset", "loss", "training_step", "optimizer", "loader")
DETAIL_ROLES = ("collate_fn", "sampler", "batch_transform", "count_samples")
ROLES = FACTORY_ROLES + DETAIL_ROLES
"""what a script may provide, by the names of `Workload`'s fields"""

CALLED_WITH = {
    "model": "",
    "dataset": "",
    "loss": "output, target",
    "training_step": "model, batch",
    "optimizer": "parameters",
    "loader": "batch_size, **options",
    "collate_fn": "samples",
    "sampler": "dataset",
    "batch_transform": "batch",
    "count_samples": "batch",
}
"""the arguments that each role's function is called with"""
MOST_ARGUMENTS = {"dataset": 1, "training_step": 3, "loader": 1}
"""arguments without a default that a role's function may have, where that is another number"""


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
    """(output, target) -> scalar; a module is moved to the model's device"""
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
    clip_norm: float | None = None
    """largest norm of the gradients, where your loop clips them: a part of the step"""
    drop_last: bool = False
    baseline: Mapping[str, Any] = field(default_factory=dict)
    """what you run today: {"batch_size": 64, "num_workers": 2}; the rest is PyTorch's defaults"""

    def __post_init__(self) -> None:
        for role in ROLES:
            value = getattr(self, role)
            if value is not None:
                _check_function(role, value)
        if self.clip_norm is not None and not self.clip_norm > 0:
            raise WorkloadError(f"Workload(clip_norm={self.clip_norm}) would leave no gradient")
        _check_baseline(self.baseline)
        if self.dataset is None and self.loader is None:
            raise WorkloadError("a Workload needs dataset= or loader=")
        if self.loss is not None and self.training_step is not None:
            raise WorkloadError("a Workload takes loss= or training_step=, not both")

    @property
    def own_step(self) -> bool:
        """Whether the training step does its own backward and optimizer steps."""
        return self.training_step is not None and len(required_arguments(self.training_step)) >= 3

    @property
    def pre_batched(self) -> bool:
        """Whether the dataset factory takes the batch size and yields whole batches."""
        return self.dataset is not None and bool(required_arguments(self.dataset))


def required_arguments(function: Callable[..., Any]) -> list[str]:
    """Return the positional arguments without a default that `function` takes; none where nobody can tell."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [item.name for item in parameters if item.kind in kinds and item.default is inspect.Parameter.empty]


def is_batch_size(argument: str) -> bool:
    """Whether an argument is a batch size, by its name."""
    return "batch" in argument or argument == "bs"


def first_argument(function: Callable[..., Any]) -> str:
    """Return the name of the first argument of `function`; empty where nobody can tell."""
    try:
        return next(iter(inspect.signature(function).parameters), "")
    except (TypeError, ValueError):
        return ""


def accepts(function: Callable[..., Any], name: str) -> bool:
    """Whether `function` takes a keyword argument of that name; True where nobody can tell."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return True
    return name in parameters or any(item.kind is inspect.Parameter.VAR_KEYWORD for item in parameters.values())


def _check_function(role: str, value: Any) -> None:
    """Raise WorkloadError where `value` cannot be called as the function of that role is."""
    # a module can be called, too; asked by its methods, so that nothing here needs torch
    built = role == "model" and hasattr(value, "named_parameters") and not isinstance(value, type)
    if built or not callable(value):
        builds = CALLED_WITH[role] if role in ("optimizer", "sampler") else ""
        raise WorkloadError(
            f"Workload({role}=...) takes a function, not {article(value)}",
            hint=f"Give a function that builds it: {role}=lambda{' ' + builds if builds else ''}: ...",
        )
    if role == "loss" and isinstance(value, type) and hasattr(value, "named_parameters"):
        raise WorkloadError(
            f"Workload(loss=...) takes (output, target) -> scalar, and {value.__name__} is a class that makes one",
            hint=f"Make it: loss={value.__name__}()",
        )
    arguments = CALLED_WITH[role]
    needed = required_arguments(value)
    most = MOST_ARGUMENTS.get(role, arguments.count(",") + 1 if arguments else 0)
    name = getattr(value, "__name__", role)
    if len(needed) > most:
        raise WorkloadError(
            f"{role} is called as {role}({arguments}), and {name}({', '.join(needed)}) needs more",
            hint=f"Fill in the rest: {role}=lambda{' ' + arguments if arguments else ''}: {name}(...)",
        )
    if role == "dataset" and needed and not is_batch_size(needed[0]):
        raise WorkloadError(
            f"dataset is called as dataset(), and {name}({needed[0]}) needs more",
            hint=f"Fill it in: dataset=lambda: {name}(...). Data that come in whole batches take batch_size.",
        )


def _check_baseline(baseline: Any) -> None:
    if not isinstance(baseline, Mapping):
        raise WorkloadError(
            f"Workload(baseline=...) takes a dict, not {article(baseline)}", hint='As in: baseline={"batch_size": 64}'
        )
    try:
        Config(**baseline)
    except (ConfigError, TypeError) as error:  # TypeError: a name that is no text
        hint = error.hint if isinstance(error, ConfigError) else ""
        raise WorkloadError(f"Workload(baseline=...): {str(error).splitlines()[0]}", hint=hint) from None


def article(value: object) -> str:
    """Return the type of `value` as "a str" or "an int"."""
    name = type(value).__name__
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"
