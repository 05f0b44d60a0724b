"""Random generators that a dataset holds: every loader worker gets a copy, and all draw the same."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
import torch

KINDS = (np.random.Generator, np.random.RandomState, random.Random, torch.Generator)
DEPTH = 6  # of objects in objects; a transform in the list of a Compose in a dataset in a Subset has the fourth
LONGEST_LIST = 100  # of transforms; longer ones are data


@dataclass(frozen=True)
class Held:
    """A random generator, and what holds it."""

    name: str
    """path from the class of the dataset, as "Subset.dataset.flip.rng"; of a module, what it calls it"""
    generator: Any
    holder: type | ModuleType
    """class of the object, or the module"""


def held_by(dataset: Any) -> Iterator[Held]:
    """Yield the random generators that the dataset holds, or objects in it."""
    pending: list[tuple[str, Any, type, int]] = [(type(dataset).__name__, dataset, type(dataset), 0)]
    seen: set[int] = set()
    while pending:
        name, item, holder, depth = pending.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        if isinstance(item, KINDS):
            yield Held(name, item, holder)
        elif depth < DEPTH and hasattr(item, "__dict__") and not isinstance(item, type | ModuleType | torch.Tensor):
            pending += [(f"{name}.{key}", value, type(item), depth + 1) for key, value in vars(item).items()]
        elif depth < DEPTH and isinstance(item, list | tuple) and len(item) < LONGEST_LIST:
            pending += [(name, value, holder, depth + 1) for value in item]


def generators_in(dataset: Any) -> tuple[str, ...]:
    """Return where the dataset holds random generators, as "dataset.flip.rng"."""
    return tuple(held.name.partition(".")[2] for held in held_by(dataset))
