"""The script's losses: what its backward passes start from. No hook exists for that, so both ways in are patched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

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
        self.count = 0
        self._on_backward = on_backward

    def forget(self) -> None:
        """Wait for the next one."""
        self.last = None

    def install(self, changes: Changes) -> None:
        backward, scale = torch.autograd.backward, torch.amp.GradScaler.scale
        unscaled: list[Tensor] = []

        def note_backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
            if not in_backward_pass():
                self.last = unscaled.pop() if unscaled else _first(tensors)
                self.count += 1
                self._on_backward()
            return backward(tensors, *args, **kwargs)

        def note_scale(scaler: Any, outputs: Any) -> Any:
            if isinstance(outputs, Tensor):
                unscaled[:] = [outputs.detach()]
            return scale(scaler, outputs)

        changes.patch(torch.autograd, "backward", note_backward)  # that of tensors calls it
        changes.patch(torch.amp.GradScaler, "scale", note_scale)


def _first(tensors: Any) -> Tensor | None:
    """Return the first of the tensors that a backward pass starts from, detached; None where it is an edge."""
    given = tensors if isinstance(tensors, list | tuple) else [tensors]
    return next((item.detach() for item in given if isinstance(item, Tensor)), None)
