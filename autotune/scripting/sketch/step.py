"""One training step of a script, as code: what the model is called with, and how the loss comes about."""

from __future__ import annotations

import functools
import inspect
import math
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from autotune.scripting.changes import Changes
from autotune.scripting.losses import in_backward_pass
from autotune.scripting.models import device_of
from autotune.scripting.sketch.around import Around
from autotune.scripting.sketch.expressions import Unseen, Writer, defaults_of, is_default
from autotune.scripting.sketch.rebuilt import ModelLook
from autotune.workload.script import is_library

LOSSES = (
    *("cross_entropy", "nll_loss", "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy"),
    *("binary_cross_entropy_with_logits", "kl_div", "poisson_nll_loss", "cosine_embedding_loss", "triplet_margin_loss"),
)
"""losses of torch.nn.functional, which the modules call, too"""

WHOLE = "training_step(tuned, model, batch) can make the whole step"
SAME = 0.01  # of factors of losses that were rounded to half precision


@dataclass
class Step:
    """What was seen since the last batch, or the last update."""

    batch: Any = None
    calls: list[tuple[tuple[Any, ...], dict[str, Any], Any]] = field(default_factory=list)
    """of models: their arguments and outputs"""
    losses: list[tuple[str, tuple[Any, ...], dict[str, Any], Tensor]] = field(default_factory=list)
    """calls of LOSSES, with their results"""
    backwards: int = 0


class StepWatch:
    """Looks at the script's steps until one could be written down, and counts the backward passes of all."""

    def __init__(self, models: list[nn.Module], writer: Writer) -> None:
        self.looks: dict[int, ModelLook] = {}
        """the models, by their number, before their first forward"""
        self.line = 0
        """of the script, where its backward pass starts"""
        self.several = False
        """whether there were several backward passes on one batch"""
        self.around = Around()
        self._models, self._writer = models, writer
        self._step = Step()
        self._unseen = "no step was seen"
        """why none could be written down"""
        self._call = self._loss = ""
        self._factor = 1.0
        """what the script multiplies the loss with before its backward pass"""
        self._varies = False
        """whether that is another factor in another step"""
        self._scaled: tuple[Any, Any] = (None, None)
        """the last loss that a gradient scaler has scaled, before and after"""
        self._passes = 0
        """since the last update"""
        self._per_update: Counter[int] = Counter()
        """how often there were so many in an update"""

    @property
    def passes(self) -> int:
        """Backward passes in an update, as a rule: each on a batch of its own where there is code."""
        return max(self._per_update, key=lambda count: self._per_update[count], default=1)

    @property
    def trouble(self) -> str:
        """Why there is no code; empty: there is."""
        if len(self._models) > 1:
            return f"the script trains several models: {WHOLE}"
        if self.several:
            return f"the script makes several backward passes on a batch: {WHOLE}"
        if self._varies:
            return "the script weighs its loss differently from step to step"
        return self._unseen

    @property
    def code(self) -> list[str]:
        """The body of a training step; empty: it does not show."""
        if self.trouble:
            return []
        if math.isclose(self._factor * self.passes, 1.0, rel_tol=1e-3):  # as a workload's accumulation has it
            return [self._call, f"return {self._loss}"]
        weighed = f"return {self._factor * self.passes:g} * {self._loss}"
        if self.passes == 1:
            return [self._call, weighed]
        comment = f"# the script adds up {self.passes} batches, where accumulation takes their mean"
        return [self._call, comment, weighed]

    def install(self, changes: Changes) -> None:
        for name in LOSSES:
            changes.patch(functional, name, self._noting(name))
        backward, scale = torch.autograd.backward, torch.amp.GradScaler.scale

        def seen(tensors: Any, *args: Any, **kwargs: Any) -> Any:
            if in_backward_pass():
                return backward(tensors, *args, **kwargs)
            self._begins(tensors)
            backward(tensors, *args, **kwargs)
            self.around.backward_ends(self._models)

        def scaled(scaler: Any, outputs: Any) -> Any:
            result = scale(scaler, outputs)
            self._scaled = outputs, result
            return result

        changes.patch(torch.autograd, "backward", seen)  # that of tensors calls it
        changes.patch(torch.amp.GradScaler, "scale", scaled)
        self.around.install(changes)

    def asks(self) -> None:
        """The script asks for its next batch."""
        self._step.backwards = 0

    def fetched(self, batch: Any) -> None:
        """The script has got it."""
        self._step = Step(batch=batch)

    def forward_begins(self, model: nn.Module) -> None:
        """A model is called."""
        number = next(number for number, known in enumerate(self._models) if known is model)
        if number not in self.looks:
            self.looks[number] = ModelLook.at(model)
        if torch.is_grad_enabled():
            self.around.forward(device_of(model))

    def forward_ends(self, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        """A model was called with these arguments."""
        if torch.is_grad_enabled():
            self._step.calls.append((args, kwargs, output))

    def updated(self) -> None:
        """An update was made."""
        self._per_update[self._passes] += 1
        self._passes = 0
        batch = self._step.batch
        # several updates on one batch are several passes on it, too
        self._step = Step(batch, backwards=0 if batch is None else self._step.backwards)
        self.around.updated()

    def _noting(self, name: str) -> Any:
        plain = getattr(functional, name)

        @functools.wraps(plain)
        def noted(*args: Any, **kwargs: Any) -> Any:
            result = plain(*args, **kwargs)
            if torch.compiler.is_compiling():
                return result
            if isinstance(result, Tensor) and result.requires_grad:
                self._step.losses.append((name, args, kwargs, result))
            return result

        return noted

    def _begins(self, tensors: Any) -> None:
        """Note a backward pass, and write the step down where none is yet."""
        self._passes += 1
        self._step.backwards += 1
        self.several = self.several or self._step.backwards > 1
        unscaled, scaled = self._scaled
        loss = unscaled if tensors is scaled else tensors
        if self._loss:
            self._compare(self._step, loss)
            return
        self.line = _line()
        try:
            self._write(self._step, loss)
        except Unseen as error:
            self._unseen = str(error)

    def _compare(self, step: Step, loss: Any) -> None:
        """See whether another step weighs its loss as the one that was written down."""
        factor = _factor(step, loss) if isinstance(loss, Tensor) else None
        self._varies |= factor is None or not math.isclose(factor, self._factor, rel_tol=SAME)

    def _write(self, step: Step, loss: Any) -> None:
        if not isinstance(loss, Tensor) or loss.numel() != 1:
            raise Unseen("the backward pass starts from more than one number")
        if len(step.calls) != 1:
            raise Unseen(f"the model is called {len(step.calls)} times in a step")
        args, kwargs, output = step.calls[0]
        known = dict(_tensors("batch", step.batch))
        given = [_path(item, known, self._writer) for item in args]
        given += [f"{name}={_path(item, known, self._writer)}" for name, item in kwargs.items()]
        outputs = dict(_tensors("output", output))
        factor = _factor(step, loss)
        if factor is None:
            raise Unseen("the loss is computed in a way of its own")
        if not math.isfinite(factor):
            raise Unseen("the loss is 0 or not finite")
        own = next((path for path, item in outputs.items() if _is_multiple(loss, item)), None)
        self._loss = own or self._loss_of(step, loss, {**outputs, **known})
        self._call, self._factor, self._unseen = f"output = model({', '.join(given)})", factor, ""

    def _loss_of(self, step: Step, loss: Tensor, known: Mapping[str, Tensor]) -> str:
        """Return the call of the loss's function."""
        name, args, kwargs, _ = next(item for item in step.losses if _is_multiple(loss, item[3]))
        parts = [_path(item, known, self._writer) for item in args]
        usual = defaults_of(inspect.unwrap(getattr(functional, name)))
        parts += [
            f"{key}={_path(item, known, self._writer)}"
            for key, item in kwargs.items()
            if not is_default(usual, key, item)
        ]
        return f"torch.nn.functional.{name}({', '.join(parts)})"


def _factor(step: Step, loss: Tensor) -> float | None:
    """Return how many times a loss that the model or a function of LOSSES returned this one is; None: of none."""
    of_models = (item for *_, output in step.calls for _, item in _tensors("output", output))
    results = (*of_models, *(result for *_, result in step.losses))
    found = next((item for item in results if _is_multiple(loss, item)), None)
    if found is None:
        return None
    return 1.0 if loss is found else float(loss.detach() / found.detach())


def _is_multiple(loss: Tensor, result: Tensor) -> bool:
    """Whether a loss is this result, but for constants that it is multiplied with or divided by."""
    node, end = loss.grad_fn, result.grad_fn
    while node is not None and node is not end:
        parents = [parent for parent, _ in node.next_functions if parent is not None]
        if len(parents) != 1 or type(node).__name__ not in ("MulBackward0", "DivBackward0"):
            return False
        node = parents[0]
    return node is not None and result.numel() == 1


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
