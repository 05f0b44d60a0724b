"""The script's losses: what its backward passes start from. No hook exists for that, so both ways in are patched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from autotune.scripting.changes import Changes


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
        backward, scale = Tensor.backward, torch.amp.GradScaler.scale
        unscaled: list[Tensor] = []

        def note_backward(tensor: Tensor, *args: Any, **kwargs: Any) -> Any:
            self.last = unscaled.pop() if unscaled else tensor.detach()
            self.count += 1
            self._on_backward()
            return backward(tensor, *args, **kwargs)

        def note_scale(scaler: Any, outputs: Any) -> Any:
            if isinstance(outputs, Tensor):
                unscaled[:] = [outputs.detach()]
            return scale(scaler, outputs)

        changes.patch(Tensor, "backward", note_backward)
        changes.patch(torch.amp.GradScaler, "scale", note_scale)
