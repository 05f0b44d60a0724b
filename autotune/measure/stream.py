"""Batches of epoch after epoch, with the time that each was waited for and the samples in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from autotune.errors import WorkloadError
from autotune.prefetching import on_host
from autotune.samples import SampleCounter


def no_batch() -> WorkloadError:
    """Return the error of a loader that yields nothing."""
    return WorkloadError(
        "the loader yields no batch: an epoch has 0 steps",
        hint="Is the dataset empty, smaller than the batch size under drop_last, or one that can be read once only?",
    )


@dataclass(frozen=True)
class Fetched:
    """One batch, as the step takes it: in host memory, or on its way to the device."""

    batch: Any
    samples: int
    wait_s: float
    boundary_s: float | None
    """seconds of an epoch's restart until this batch, where one came before it"""

    @property
    def host(self) -> Any:
        """The batch in host memory."""
        return on_host(self.batch)


class Stream:
    """Reads a loader epoch after epoch, using only `iter` and `next`."""

    def __init__(self, host: Any, count: SampleCounter, clock: Callable[[], float]) -> None:
        self._host = host
        self._count = count
        self._clock = clock
        self._iterator: Iterator[Any] | None = None
        self.position = 0
        """batches taken from the current epoch"""
        self.steps_per_epoch: int | None = _length(host)
        self.samples_per_epoch: int | None = None
        """counted in the first epoch that was read whole"""
        self._epoch_samples = 0
        self.first_batch_s = 0.0
        self.boundaries: list[float] = []
        """seconds of each restart after an epoch's natural end, first batch included"""

    def next(self) -> Fetched:
        """Return the next batch; starts the next epoch where one ends.

        Raises:
            WorkloadError: an epoch without any batch.
        """
        began = self._clock()
        if self._iterator is None:
            return self._start(began)
        try:
            batch = next(self._iterator)
        except StopIteration:
            self._end_epoch()
            return self._start(began)
        return self._fetched(batch, self._clock() - began, None)

    def left_in_epoch(self) -> int | None:
        """Return how many batches the current epoch still has; None where nobody knows yet."""
        return None if self.steps_per_epoch is None else self.steps_per_epoch - self.position

    def close(self) -> None:
        """Let go of the iterator, which ends its workers."""
        self._iterator = None

    def _start(self, began: float) -> Fetched:
        """Begin an epoch; what it costs includes the end of the last one's workers, as in a for loop."""
        restart = self._iterator is not None
        self._iterator = None  # persistent workers live on in the loader
        self._iterator = iter(self._host)
        try:
            batch = next(self._iterator)
        except StopIteration:
            raise no_batch() from None
        took = self._clock() - began
        self.position = 0
        self._epoch_samples = 0
        if not restart:
            self.first_batch_s = took
        else:
            self.boundaries.append(took)
        return self._fetched(batch, took, took if restart else None)

    def _fetched(self, batch: Any, wait_s: float, boundary_s: float | None) -> Fetched:
        samples = self._count(on_host(batch), self.position)
        self.position += 1
        self._epoch_samples += samples
        return Fetched(batch, samples, wait_s, boundary_s)

    def _end_epoch(self) -> None:
        self.steps_per_epoch = self.position
        self.samples_per_epoch = self._epoch_samples


def _length(host: Any) -> int | None:
    try:
        return len(host)
    except (TypeError, NotImplementedError, AttributeError):
        return None
