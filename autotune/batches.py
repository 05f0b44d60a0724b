"""Batches of any structure: walk, move, clone, describe.

Tensors, lists, tuples, named tuples, mappings, dataclasses, nested, and objects with a `.to()` of their own.
Everything else (strings, numbers, None, arrays) stays as it is. Types are kept.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

MAX_DEPTH = 16  # deeper than any batch; a structure that refers to itself ends here
SHOWN_ITEMS = 6


def map_tensors(batch: Any, function: Callable[[Tensor], Any], other: Callable[[Any], Any] | None = None) -> Any:
    """Return `batch` rebuilt with `function` applied to each tensor; objects with `.to()` go to `other`."""
    return _map(batch, function, other or (lambda item: item), MAX_DEPTH)


def _map(item: Any, function: Callable[[Tensor], Any], other: Callable[[Any], Any], depth: int) -> Any:
    if isinstance(item, Tensor):
        return function(item)
    if depth == 0 or item is None or isinstance(item, str | bytes | int | float):
        return item

    def again(child: Any) -> Any:
        return _map(child, function, other, depth - 1)

    if callable(getattr(item, "to", None)):
        return other(item)
    if isinstance(item, Mapping):
        return _rebuild_mapping(item, {key: again(value) for key, value in item.items()})
    if isinstance(item, tuple):
        return rebuild_tuple(item, [again(child) for child in item])
    if isinstance(item, list):
        return _rebuild_list(item, [again(child) for child in item])
    if dataclasses.is_dataclass(item) and not isinstance(item, type):
        return _rebuild_dataclass(
            item, {spec.name: again(getattr(item, spec.name)) for spec in dataclasses.fields(item)}
        )
    return item


def rebuild_tuple(item: tuple[Any, ...], children: list[Any]) -> Any:
    """Return a tuple of the same type with other contents."""
    return type(item)(*children) if hasattr(item, "_fields") else type(item)(children)


def _rebuild_list(item: list[Any], children: list[Any]) -> list[Any]:
    rebuilt = copy.copy(item)  # keeps a subclass and its attributes
    rebuilt[:] = children
    return rebuilt


def _rebuild_dataclass(item: Any, children: dict[str, Any]) -> Any:
    rebuilt = copy.copy(item)
    for name, value in children.items():
        object.__setattr__(rebuilt, name, value)  # frozen ones too: it is a new object
    return rebuilt


def _rebuild_mapping(item: Mapping[Any, Any], children: dict[Any, Any]) -> Any:
    if type(item) is dict:
        return children
    try:
        rebuilt: Any = copy.copy(item)
        for key, value in children.items():  # one by one: a model output of transformers refuses `update`
            rebuilt[key] = value
        return rebuilt
    except (AttributeError, TypeError):  # an immutable mapping
        return type(item)(children)  # type: ignore[call-arg]


def move(
    batch: Any,
    device: torch.device,
    *,
    non_blocking: bool = False,
    transforms: list[Callable[[Tensor], Tensor]] | None = None,
) -> Any:
    """Return the batch on `device`, with `transforms` applied to each tensor there; nothing is cast."""

    def place(tensor: Tensor) -> Tensor:
        tensor = tensor.to(device, non_blocking=non_blocking)
        for transform in transforms or ():
            tensor = transform(tensor)
        return tensor

    def place_object(item: Any) -> Any:
        moved = item.to(device)
        return item if moved is None else moved  # some move themselves in place

    return map_tensors(batch, place, place_object)


def clone(batch: Any) -> Any:
    """Return an independent copy: a step may change its batch in place."""
    return map_tensors(batch, _copy, copy.deepcopy)


def _copy(tensor: Tensor) -> Tensor:
    copied = tensor.detach().clone()
    return copied.pin_memory() if tensor.is_pinned() else copied


def tensors(batch: Any, depth: int = 4) -> Iterator[Tensor]:
    """Yield every tensor of the batch, those inside objects with a `.to()` included where they can be seen."""
    found: list[Tensor] = []

    def look_inside(item: Any) -> Any:
        if depth > 0:
            for value in _contents(item):
                found.extend(tensors(value, depth - 1))
        return item

    map_tensors(batch, found.append, look_inside)
    return iter(found)


def _contents(item: Any) -> list[Any]:
    """Return what an object holds, as far as it shows."""
    if isinstance(item, Mapping):
        return list(item.values())
    if isinstance(item, tuple | list):
        return list(item)
    return list(getattr(item, "__dict__", {}).values())


def nbytes(batch: Any) -> int:
    """Return the bytes of all tensors of the batch."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors(batch))


def shapes(batch: Any) -> tuple[tuple[int, ...], ...]:
    """Return the shapes of all tensors, in the order of the structure.

    A nested tensor, whose parts differ in shape, has the number of its parts and that of all their elements.
    """
    return tuple(
        (tensor.size(0), tensor.numel()) if tensor.is_nested else tuple(tensor.shape) for tensor in tensors(batch)
    )


def describe(item: Any, depth: int = 4) -> str:
    """Return the structure in one line: "[float32[64, 3, 32, 32], int64[64]]"."""
    if isinstance(item, Tensor):
        sizes = f"[{item.size(0)}, ...]" if item.is_nested else list(item.shape)
        return f"{str(item.dtype).removeprefix('torch.')}{sizes}"
    if depth == 0:
        return "..."
    if isinstance(item, Mapping):
        inside = [f"{key!r}: {describe(value, depth - 1)}" for key, value in list(item.items())[:SHOWN_ITEMS]]
        name = "" if type(item) is dict else type(item).__name__
        return f"{name}{{{', '.join(inside + _more(len(item)))}}}"
    if isinstance(item, tuple | list):
        inside = [describe(child, depth - 1) for child in item[:SHOWN_ITEMS]] + _more(len(item))
        if isinstance(item, list):
            return f"[{', '.join(inside)}]"
        return f"{'' if type(item) is tuple else type(item).__name__}({', '.join(inside)})"
    if dataclasses.is_dataclass(item) and not isinstance(item, type):
        fields = [f"{spec.name}={describe(getattr(item, spec.name), depth - 1)}" for spec in dataclasses.fields(item)]
        return f"{type(item).__name__}({', '.join(fields[:SHOWN_ITEMS] + _more(len(fields)))})"
    return type(item).__name__


def _more(count: int) -> list[str]:
    return [f"... {count - SHOWN_ITEMS} more"] if count > SHOWN_ITEMS else []
