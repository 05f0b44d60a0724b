"""Batches whose copy to the device began while the one before computes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from autotune.batches import tensors
from autotune.device import Copies


@dataclass(frozen=True)
class Staged:
    """A batch on its way to the device."""

    host: Any
    """as the loader yielded it"""
    batch: Any
    """on the device; only `take` makes sure that it has arrived"""
    arrived: Any
    copies: Copies

    def take(self) -> Any:
        """Return the batch for work that is given to the device from now on, which waits until it has arrived."""
        self.copies.hand_over(self.arrived, list(tensors(self.batch)))
        return self.batch


class Ahead:
    """Reads a loader one batch ahead and begins its copy, then yields the batch before it."""

    def __init__(self, host: Iterable[Any], copies: Copies, move: Callable[[Any], Any]) -> None:
        self._host, self._copies, self._move = host, copies, move

    def __len__(self) -> int:
        return len(self._host)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Staged]:
        iterator = iter(self._host)
        following = self._begin(iterator)
        while following is not None:
            current, following = following, self._begin(iterator)
            yield current

    def _begin(self, iterator: Iterator[Any]) -> Staged | None:
        """Take a batch from the loader and begin its copy; None at the end."""
        for host in iterator:
            with self._copies.beside():
                batch = self._move(host)
            return Staged(host, batch, self._copies.mark(), self._copies)
        return None


def on_host(item: Any) -> Any:
    """Return a batch as the loader yielded it."""
    return item.host if isinstance(item, Staged) else item
