"""Gradients of several batches for one update, equal to those of one batch of all their samples."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from torch.optim import Optimizer
from torch.utils.data import BatchSampler, DataLoader

from autotune.errors import WorkloadError
from autotune.samples import SampleCounter, epoch_batches


class Accumulation:
    """Weighs each batch by its samples and says when an update is due.

    A loss that is a mean over a batch's samples counts with the share that these have in a full group. Where a group
    turns out to have other samples (the last one of an epoch, a last batch that is not full) its gradients are
    multiplied by what makes them the mean again, just before the update.
    """

    def __init__(self, batches: int) -> None:
        self.batches = batches
        """in a full group"""
        self._samples, self._last = 1, False
        self._full: int | None = None
        self._open: dict[tuple[int, ...], list[int]] = {}
        self._optimizers: dict[tuple[int, ...], Sequence[Optimizer]] = {}

    def begin(self, samples: int, last: bool = False) -> None:
        """Take note of the batch at hand: its samples, and whether it ends an epoch. The first one counts as full."""
        self._samples, self._last = samples, last
        self._full = self._full or samples

    def share(self) -> float:
        """Return what to multiply the loss of the batch at hand with.

        Raises:
            WorkloadError: gradients of an earlier batch of the group are gone.
        """
        for optimizers in self._optimizers.values():
            if all(item.grad is None for item in _parameters(optimizers)):
                raise WorkloadError(
                    "the gradients of earlier batches are gone: zero_grad() was called in the middle of an update",
                    hint=f"{self.batches} batches make one update here; tuned.step() zeroes the gradients after it.",
                )
        return self._samples / self._whole

    def add(self, optimizers: Sequence[Optimizer]) -> bool:
        """Count the batch at hand for these optimizers; return whether their update is due."""
        key = _key(optimizers)
        self._optimizers[key] = optimizers
        group = self._open.setdefault(key, [])
        group.append(self._samples)
        return self._last or len(group) >= self.batches

    def close(self, optimizers: Sequence[Optimizer]) -> bool:
        """End the group: make its gradients the mean over its samples. Returns False where there is none."""
        self._optimizers.pop(_key(optimizers), None)
        samples = sum(self._open.pop(_key(optimizers), []))
        if samples == 0:
            return False
        if samples != self._whole:
            for item in _parameters(optimizers):
                if item.grad is not None:
                    item.grad.mul_(self._whole / samples)
        return True

    @property
    def _whole(self) -> int:
        """Samples of a full group."""
        return self.batches * (self._full or 1)


def with_ends(batches: Iterable[Any], count: int | None = None) -> Iterator[tuple[Any, bool]]:
    """Yield the batches of an epoch, each with whether it is the last: known by their count, else by looking ahead."""
    if count is not None:
        for number, batch in enumerate(batches, 1):
            yield batch, number == count
        return
    batches = iter(batches)
    for batch in batches:
        for following in batches:
            yield batch, False
            batch = following
        yield batch, True


def counter_for(host: Iterable[Any], batch_size: int) -> SampleCounter:
    """Return what counts the samples in the batches of a loader."""
    if not isinstance(host, DataLoader):
        return SampleCounter(batch_size)
    steps = epoch_batches(host) if type(host.batch_sampler) is BatchSampler else None
    return SampleCounter(
        host.batch_size or batch_size,
        dataset_length=None if steps is None else len(host.sampler),  # type: ignore[arg-type]
        steps_per_epoch=steps,
        drop_last=host.drop_last,
    )


def _key(optimizers: Sequence[Optimizer]) -> tuple[int, ...]:
    return tuple(id(item) for item in optimizers)


def _parameters(optimizers: Sequence[Optimizer]) -> Iterator[Any]:
    """Yield each parameter once."""
    seen: set[int] = set()
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            for item in group["params"]:
                if id(item) not in seen:
                    seen.add(id(item))
                    yield item
