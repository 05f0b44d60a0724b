"""What the script gives its models, converted while the forward has it: what that writes into it is the script's."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from autotune.batches import MAX_DEPTH, map_tensors, rebuild_tuple

Transform = Callable[[Tensor], Tensor]


@contextlib.contextmanager
def lent(given: Any, transforms: Iterable[Transform]) -> Iterator[Any]:
    """Give `given` with its tensors transformed, in the caller's own containers; put all back at the end.

    A tensor that was written into meanwhile is copied back. In inference mode, where no tensor tells of that, nothing
    is transformed.
    """
    if torch.is_inference_mode_enabled():
        yield given
        return
    loans = _Loans(tuple(transforms))
    try:
        yield exchange(given, loans.transformed)
    finally:
        exchange(given, loans.original)
        loans.copy_back()


class _Loans:
    """Tensors and what the forward gets in their place."""

    def __init__(self, transforms: tuple[Transform, ...]) -> None:
        self._transforms = transforms
        self._of: dict[int, tuple[Tensor, Tensor]] = {}
        """original and transformed, by the number of the original: one given twice stays one"""
        self._originals: dict[int, Tensor] = {}
        self._versions: dict[int, int] = {}

    def transformed(self, tensor: Tensor) -> Tensor:
        if id(tensor) in self._of:
            return self._of[id(tensor)][1]
        new = tensor
        for transform in self._transforms:
            new = transform(new)
        self._of[id(tensor)] = tensor, new
        if new is not tensor:
            self._originals[id(new)], self._versions[id(new)] = tensor, new._version
        return new

    def original(self, tensor: Tensor) -> Tensor:
        return self._originals.get(id(tensor), tensor)

    def copy_back(self) -> None:
        for tensor, new in self._of.values():
            if new is tensor or new._version == self._versions[id(new)]:
                continue
            leaf = tensor.is_leaf and tensor.requires_grad  # which only a forward without gradients writes into
            with torch.set_grad_enabled(torch.is_grad_enabled() and not leaf):
                tensor.copy_(new)


def exchange(item: Any, function: Transform, depth: int = MAX_DEPTH) -> Any:
    """Apply `function` to each tensor in `item`, and put what it returns into the containers as they are.

    Returns:
        `item` itself, or another where it is a tensor, or a container that takes nothing.
    """
    if isinstance(item, Tensor):
        return function(item)
    if depth == 0 or item is None or isinstance(item, str | bytes | int | float) or callable(getattr(item, "to", None)):
        return item

    def changed(found: Iterable[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
        pairs = [(key, old, exchange(old, function, depth - 1)) for key, old in list(found)]
        return [(key, new) for key, old, new in pairs if new is not old]

    if isinstance(item, tuple):
        children = dict(changed(enumerate(item)))
        return rebuild_tuple(item, [children.get(n, old) for n, old in enumerate(item)]) if children else item
    if isinstance(item, list):
        _put(item, changed(enumerate(item)))
    elif isinstance(item, Mapping):
        return _exchange_mapping(item, changed(item.items()), function)
    elif dataclasses.is_dataclass(item) and not isinstance(item, type):
        for name, new in changed((spec.name, getattr(item, spec.name)) for spec in dataclasses.fields(item)):
            object.__setattr__(item, name, new)  # frozen ones too
    return item


def _exchange_mapping(item: Mapping[Any, Any], changed: list[tuple[Any, Any]], function: Transform) -> Any:
    if not changed:
        return item
    try:
        _put(item, changed)
    except (AttributeError, TypeError):  # it takes nothing, and so nothing is written into it either
        return map_tensors(item, function)
    return item


def _put(item: Any, changed: list[tuple[Any, Any]]) -> None:
    for key, new in changed:
        item[key] = new
