"""Undoing what a step did to a model, so that the next one starts from the same state."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn


class Kept:
    """A copy of what a model's steps change: parameters, buffers, and what its modules keep beside them.

    Not its `state_dict()`: a model may leave frozen parts out of that, and then does not take it back.
    """

    def __init__(self, model: nn.Module) -> None:
        self._values = [(item, item.detach().clone()) for item in (*model.parameters(), *model.buffers())]
        self._buffers: list[tuple[nn.Module, str, Tensor]] = []
        self._beside: list[tuple[Any, Any]] = []
        for module in model.modules():
            own = module.named_buffers(recurse=False, remove_duplicate=False)
            self._buffers += [(module, name, item) for name, item in own]
            if _keeps_more(module):
                self._beside.append((module, copy.deepcopy(module.get_extra_state())))

    def restore(self) -> None:
        """Make the model what it was."""
        for module, name, item in self._buffers:
            if getattr(module, name) is not item:  # the step put another in its place
                setattr(module, name, item)
        with torch.no_grad():
            for item, value in self._values:
                # an expanded buffer can be neither changed nor written to
                if item.layout is not torch.strided or not torch.equal(item, value):
                    item.copy_(value)
        for module, state in self._beside:
            module.set_extra_state(copy.deepcopy(state))


def _keeps_more(module: nn.Module) -> bool:
    kind = type(module)
    return (
        kind.get_extra_state is not nn.Module.get_extra_state and kind.set_extra_state is not nn.Module.set_extra_state
    )
