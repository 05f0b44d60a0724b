"""How many samples there are in a batch."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Callable
from typing import Any

from torch.utils.data import IterableDataset

from autotune.batches import tensors
from autotune.errors import WorkloadError


class SampleCounter:
    """Counts samples by what was asked for, never by the first dimension of an arbitrary tensor.

    The last batch of an epoch is smaller where the length is known. Where it is not, tensors whose first dimension
    was the batch size in the first batch are trusted to follow it.
    """

    def __init__(
        self,
        batch_size: int,
        *,
        dataset_length: int | None = None,
        steps_per_epoch: int | None = None,
        drop_last: bool = False,
        fixed: bool = False,
        count: Callable[[Any], int] | None = None,
    ) -> None:
        self.batch_size = batch_size
        self._count = count
        self._fixed = fixed
        self._last_index = None if steps_per_epoch is None else steps_per_epoch - 1
        self._last_size = batch_size
        if dataset_length is not None and not drop_last and dataset_length % batch_size:
            self._last_size = dataset_length % batch_size
        self._follow = dataset_length is None and not fixed
        self._leaves: list[int] = []

    def __call__(self, batch: Any, index: int) -> int:
        """Return the samples in the batch at `index` of its epoch."""
        if self._count is not None:
            return _checked(self._count(batch))
        if self._fixed:
            return self.batch_size
        if self._follow:
            return self._follow_leaves(batch)
        return self._last_size if index == self._last_index else self.batch_size

    def _follow_leaves(self, batch: Any) -> int:
        sizes = [tensor.size(0) if tensor.dim() else 0 for tensor in tensors(batch)]
        if not self._leaves:
            self._leaves = [index for index, size in enumerate(sizes) if size == self.batch_size]
            # all of the data do not fill one batch; in a list of images there are more tensors than channels
            if len(set(sizes)) == 1 and len(sizes) <= sizes[0] < self.batch_size:
                return sizes[0]
            return self.batch_size
        followed = {sizes[index] for index in self._leaves if index < len(sizes)}
        return followed.pop() if len(followed) == 1 and max(followed) < self.batch_size else self.batch_size


def _checked(told: Any) -> int:
    """Return what the user's own count says; times are divided by it."""
    try:
        found = float(told)  # whatever holds one number: of numpy, of torch
    except (TypeError, ValueError, RuntimeError, OverflowError):
        found = math.nan
    if found > 0 and found.is_integer():
        return int(told)
    raise WorkloadError(
        f"count_samples returned {reprlib.repr(told)} for a batch",
        hint="It has to return how many samples the batch holds: a whole number above 0.",
    )


def epoch_batches(loader: Any, count: Callable[[Any], int] = len) -> int | None:
    """Return the batches of an epoch as the loader says; None: it does not, as where its sampler has no length."""
    if isinstance(getattr(loader, "dataset", None), IterableDataset):
        return None  # a guess, which depends on what its workers do
    try:
        return count(loader)
    except Exception:
        return None  # the user's sampler does not tell
