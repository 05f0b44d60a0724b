"""The script's losses: what its backward passes start from. No hook exists for that, so the ways in are patched."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from autotune.graphs import nodes_behind
from autotune.scripting.changes import Changes


def in_backward_pass() -> bool:
    """Whether a backward pass runs: what is called now is recomputed in it, or a hook of it."""
    return torch._C._current_graph_task_id() != -1


class Losses:
    """Notes the last loss, as it was before a GradScaler scaled it, and counts the backward passes."""

    def __init__(self, on_backward: Callable[[], None]) -> None:
        """`on_backward` is called before each backward pass."""
        self.last: Tensor | None = None
        """the last tensor that a backward pass started from, detached"""
        self.starts: tuple[Tensor, ...] = ()
        """what the coming pass starts from, with its graph; empty but while `on_backward` is called"""
        self.count = 0
        self._on_backward = on_backward

    def forget(self) -> None:
        """Wait for the next one."""
        self.last = None

    def install(self, changes: Changes) -> None:
        backward, grad, scale = torch.autograd.backward, torch.autograd.grad, torch.amp.GradScaler.scale
        unscaled: list[Tensor] = []

        def begins(tensors: Any) -> None:
            if not in_backward_pass():
                self.starts = tuple(item for item in _listed(tensors) if isinstance(item, Tensor))  # no edges
                self.last = unscaled.pop() if unscaled else next((item.detach() for item in self.starts), None)
                self.count += 1
                try:
                    self._on_backward()
                finally:
                    self.starts = ()

        def note_backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
            begins(tensors)
            return backward(tensors, *args, **kwargs)

        def note_grad(outputs: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
            if isinstance(inputs, Iterator):  # as of model.parameters()
                inputs = tuple(inputs)
            if any(isinstance(item, nn.Parameter) for item in _listed(inputs)):  # else it is a part of a loss
                begins(outputs)
            return grad(outputs, inputs, *args, **kwargs)

        def note_scale(scaler: Any, outputs: Any) -> Any:
            if isinstance(outputs, Tensor):
                unscaled[:] = [outputs.detach()]
            return scale(scaler, outputs)

        changes.patch(torch.autograd, "backward", note_backward)  # that of tensors calls it
        changes.patch(torch.autograd, "grad", note_grad)
        changes.patch(torch.amp.GradScaler, "scale", note_scale)


def leaves_of(tensors: Iterable[Tensor]) -> list[Tensor]:
    """Return the tensors that a backward pass from these would give gradients to."""
    return [node.variable for node in nodes_behind(tensors) if type(node).__name__ == "AccumulateGrad"]


def _listed(tensors: Any) -> Iterable[Any]:
    if isinstance(tensors, dict):
        return tensors.values()
    return tensors if isinstance(tensors, list | tuple) else [tensors]
