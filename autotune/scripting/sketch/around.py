"""What a script does around its steps, as far as a workload has a place for it or a person should know."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler
from torch.optim.optimizer import register_optimizer_step_pre_hook

from autotune.options.precision import AUTOCAST_DTYPES
from autotune.scripting.changes import Changes
from autotune.scripting.optimizers import updated_by
from autotune.scripting.settings import Settings

CLIPS = {"clip_grad_norm_": "max_norm", "clip_grad_value_": "clip_value"}
"""torch's functions that clip gradients, and the arguments that are their limits"""


@dataclass(frozen=True)
class Clip:
    """A call of one of torch's functions that clip gradients."""

    words: str
    norm: float | None
    """the limit of their 2-norm; None: something else is clipped"""
    clipped: frozenset[Tensor]


class Around:
    """Notes what the script does between its backward passes and updates, and what it sets."""

    def __init__(self) -> None:
        self.settings = Settings()
        self.schedules: dict[str, None] = {}
        """classes of the script's learning-rate schedulers"""
        self.formats: set[torch.dtype | None] = set()
        """of the script's autocast around its models' forwards in training; None: there was none around one"""
        self.changes_gradients = False
        """whether a gradient is another one at an update than after the backward pass, and nothing clipped it"""
        self._clips: list[list[Clip]] = [[]]
        """those since the last update, after those of each update"""
        self._norms: dict[Tensor, float] = {}
        """of the gradients, after the last backward pass"""

    def install(self, changes: Changes) -> None:
        self.settings.install(changes)
        for name, limit in CLIPS.items():
            noted = self._noting(getattr(nn.utils, name), limit)
            changes.patch(nn.utils, name, noted)
            changes.patch(nn.utils.clip_grad, name, noted)

        def __new__(kind: type, *args: Any, **kwargs: Any) -> Any:
            self.schedules[kind.__name__] = None
            return super(LRScheduler, kind).__new__(kind)  # type: ignore[misc]

        changes.patch(LRScheduler, "__new__", staticmethod(__new__))
        changes.add(register_optimizer_step_pre_hook(self._before_update).remove)

    def backward_ends(self, models: Iterable[nn.Module]) -> None:
        """Note the gradients that a backward pass has left."""
        parameters = {item for model in models for item in model.parameters()}
        self._norms = {item: _norm(item.grad) for item in parameters if item.grad is not None}

    def updated(self) -> None:
        """Note an update."""
        self._clips.append([])

    def forward(self, device: str) -> None:
        """Note that a model is called to train."""
        self.formats.add(torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else None)

    @property
    def precision(self) -> str | None:
        """The value of the option that does what the script's own autocast does; None: there is none."""
        values = {getattr(torch, dtype): value for value, dtype in AUTOCAST_DTYPES.items()}
        known = [values.get(dtype) for dtype in self.formats if dtype is not None]
        return known[0] if len(self.formats) == 1 and known else None

    @property
    def left_out(self) -> Iterator[str]:
        """What of the script's mixed precision a baseline cannot say, in words."""
        if self.precision is None and self.formats - {None}:
            yield f"the script computes under autocast: {', '.join(sorted(map(str, self.formats)))}"
        if self.settings.own_scaler and self.precision != "fp16":
            yield "the script scales its gradients; a workload does so under fp16 alone"

    def clip_norm(self, optimizers: Sequence[Optimizer]) -> float | None:
        """Return the norm that a workload clips to, where that is what the script does at each update."""
        if len(optimizers) != 1:
            return None
        held = {item for item in updated_by(optimizers) if item.requires_grad}
        found = set()
        for clips in self._clips[:-1]:
            alike = len(clips) == 1 and held <= clips[0].clipped
            found.add(clips[0].norm if alike else None)
        norm = found.pop() if len(found) == 1 else None
        return norm if norm is not None and norm > 0 else None

    def gradients(self, optimizers: Sequence[Optimizer]) -> Iterator[str]:
        """Yield what the script does to its gradients that a workload's `clip_norm` does not do."""
        calls = dict.fromkeys(clip.words for clips in self._clips for clip in clips)
        if calls and self.clip_norm(optimizers) is None:
            yield f"the script calls {' and '.join(calls)}"
        if self.changes_gradients:
            yield "the script changes its gradients between the backward pass and the update"

    def _before_update(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        if self._clips[-1] or self.settings.own_scaler:  # the scaler divides them
            return
        left = {item: item.grad for item in updated_by([optimizer]) if item in self._norms}
        changed = any(repr(self._norms[item]) != repr(_norm(now)) for item, now in left.items() if now is not None)
        self.changes_gradients = self.changes_gradients or changed

    def _noting(self, plain: Callable[..., Any], of: str) -> Callable[..., Any]:
        signature = inspect.signature(plain)

        @functools.wraps(plain)
        def noted(parameters: Any, *args: Any, **kwargs: Any) -> Any:
            parameters = [parameters] if isinstance(parameters, Tensor) else list(parameters)  # it may be a generator
            given = signature.bind(parameters, *args, **kwargs)
            given.apply_defaults()
            limit = float(given.arguments[of])
            norm = limit if given.arguments.get("norm_type") == 2.0 else None
            self._clips[-1].append(Clip(f"{plain.__name__}(..., {limit:g})", norm, frozenset(parameters)))
            return plain(parameters, *args, **kwargs)

        return noted


def _norm(gradient: Tensor) -> float:
    return float(gradient.detach().norm())  # of sparse ones, too
