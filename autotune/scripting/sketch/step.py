"""One training step of a script, as code: what the model is called with, and how the loss comes about."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.modules.module import register_module_forward_hook

from autotune.scripting.changes import Changes
from autotune.scripting.sketch.expressions import Unseen, Writer, defaults_of, is_default
from autotune.workload.script import is_library

LOSSES = (
    *("cross_entropy", "nll_loss", "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy"),
    *("binary_cross_entropy_with_logits", "kl_div", "poisson_nll_loss", "cosine_embedding_loss", "triplet_margin_loss"),
)
"""losses of torch.nn.functional, which the modules call, too"""


@dataclass
class Step:
    """What was seen between two updates."""

    batch: Any = None
    calls: list[tuple[nn.Module, tuple[Any, ...], dict[str, Any], Any]] = field(default_factory=list)
    """of models, with their outputs"""
    losses: list[tuple[str, tuple[Any, ...], dict[str, Any], Tensor]] = field(default_factory=list)
    """calls of LOSSES, with their results"""
    backwards: int = 0


class StepWatch:
    """Looks at the script's steps until one could be written down."""

    def __init__(self, models: list[nn.Module], writer: Writer) -> None:
        self._models, self._writer = models, writer
        self._step = Step()
        self.code: list[str] = []
        """the body of a training step; empty: it does not show"""
        self.trouble = "no step was seen"
        self.line = 0
        """of the script, where its backward pass starts"""
        self._enough = False

    def install(self, changes: Changes) -> None:
        handle = register_module_forward_hook(self._called, with_kwargs=True)
        changes.add(handle.remove)
        for name in LOSSES:
            changes.patch(functional, name, self._noting(name))
        backward = Tensor.backward

        def seen(tensor: Tensor, *args: Any, **kwargs: Any) -> Any:
            self._ended(tensor)
            return backward(tensor, *args, **kwargs)

        changes.patch(Tensor, "backward", seen)

    def fetched(self, batch: Any) -> None:
        self._step = Step(batch=batch)

    def updated(self) -> None:
        self._enough = self._enough or bool(self.code) or self._step.backwards > 1
        batch = self._step.batch
        self._step = Step(batch=batch)

    def _called(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        if not self._enough and any(module is model for model in self._models) and torch.is_grad_enabled():
            self._step.calls.append((module, args, kwargs, output))

    def _noting(self, name: str) -> Any:
        plain = getattr(functional, name)

        @functools.wraps(plain)
        def noted(*args: Any, **kwargs: Any) -> Any:
            result = plain(*args, **kwargs)
            if not self._enough and isinstance(result, Tensor) and result.requires_grad:
                self._step.losses.append((name, args, kwargs, result))
            return result

        return noted

    def _ended(self, loss: Tensor) -> None:
        if self._enough:
            return
        self._step.backwards += 1
        self.line = _line()
        self.code = []
        if self._step.backwards > 1 or len(self._models) > 1:
            self.trouble = "the script makes several backward passes a step, or trains several models"
            return
        try:
            self.code = self._write(self._step, loss)
        except Unseen as error:
            self.trouble = str(error)

    def _write(self, step: Step, loss: Tensor) -> list[str]:
        if len(step.calls) != 1:
            raise Unseen(f"the model is called {len(step.calls)} times in a step")
        _, args, kwargs, output = step.calls[0]
        known = dict(_tensors("batch", step.batch))
        given = [_path(item, known, self._writer) for item in args]
        given += [f"{name}={_path(item, known, self._writer)}" for name, item in kwargs.items()]
        lines = [f"output = model({', '.join(given)})"]
        outputs = dict(_tensors("output", output))
        for path, item in outputs.items():
            if item is loss:
                return [*lines, f"return {path}"]
        name, loss_args, loss_kwargs, _ = next((item for item in step.losses if item[3] is loss), ("", (), {}, None))
        if not name:
            raise Unseen("the loss is computed in a way of its own")
        known = {**outputs, **known}
        parts = [_path(item, known, self._writer) for item in loss_args]
        usual = defaults_of(inspect.unwrap(getattr(functional, name)))
        parts += [
            f"{key}={_path(item, known, self._writer)}"
            for key, item in loss_kwargs.items()
            if not is_default(usual, key, item)
        ]
        return [*lines, f"return torch.nn.functional.{name}({', '.join(parts)})"]


def _tensors(path: str, value: Any) -> Iterator[tuple[str, Tensor]]:
    """Yield the tensors in a batch or an output with the code that picks each."""
    if isinstance(value, Tensor):
        yield path, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _tensors(f"{path}[{key!r}]", item)
    elif isinstance(value, tuple | list):
        for index, item in enumerate(value):
            yield from _tensors(f"{path}[{index}]", item)
    elif hasattr(value, "__dict__") and not isinstance(value, nn.Module):
        for key, item in vars(value).items():
            if not key.startswith("_"):
                yield from _tensors(f"{path}.{key}", item)


def _path(value: Any, known: Mapping[str, Tensor], writer: Writer) -> str:
    """Return code for an argument: a known tensor, one in another shape, or what can be written down."""
    if not isinstance(value, Tensor):
        for path in {path.rpartition("[")[0] for path in known} if isinstance(value, dict | list | tuple) else ():
            found = dict(_tensors(path, value))
            if found and all(key in known and _equal(known[key], item) for key, item in found.items()):
                return path
        return writer.expression(value)
    for path, item in known.items():
        if _equal(item, value):
            return path
    for path, item in known.items():
        if item.numel() == value.numel() and _equal(item.reshape(-1), value.reshape(-1)):
            return f"{path}.reshape({', '.join(map(str, (-1, *value.shape[1:])))})"
        if item.shape == value.shape and item.dtype != value.dtype and _equal(item.to(value.dtype), value):
            return f"{path}.to({value.dtype})"
    raise Unseen("the step computes with more than the batch and the model's output")


def _equal(one: Tensor, other: Tensor) -> bool:
    if one is other:
        return True
    alike = one.shape == other.shape and one.dtype == other.dtype
    return alike and torch.equal(one.detach().cpu(), other.detach().cpu())


def _line() -> int:
    frame = sys._getframe(2)
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith("<") and not is_library(name) and Path(name).exists():
            return frame.f_lineno
        if frame.f_back is None:
            break
        frame = frame.f_back
    return 0
