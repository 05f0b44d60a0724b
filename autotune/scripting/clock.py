"""The clock of a script's training: it stands still while the script does something else, as evaluate."""

from __future__ import annotations

import time
from collections.abc import Callable


class TrainingClock:
    """Seconds of training; callable like `time.perf_counter`.

    Each method but the readings notes what the script does from now on.
    """

    def __init__(self, synchronize: Callable[[], None]) -> None:
        """`synchronize` waits for the device: what it was given before the clock stands still is training."""
        self.tail_s = 0.0
        """seconds of the steps that came after the last epoch's end"""
        self.between_epochs = False
        """whether what the script does is no part of an epoch's steps, forwards in training mode among it"""
        self._synchronize = synchronize
        self._left_out = 0.0  # seconds
        self._since: float | None = None
        self._other_began: float | None = None
        """when a loader was iterated that the script does not train on, if none of its own was since"""
        self._updates_to_come = 0
        self._tail_since = 0.0

    def __call__(self) -> float:
        return (time.perf_counter() if self._since is None else self._since) - self._left_out

    def left_out(self) -> float:
        """Return the seconds of all pauses that are over."""
        return self._left_out

    @property
    def reads_other(self) -> bool:
        """Whether a loader was iterated that the script does not train on, and none of its own since."""
        return self._other_began is not None

    def train(self) -> None:
        """The script trains."""
        self.between_epochs, self._other_began, self._updates_to_come = False, None, 0
        if self._since is not None:
            self._left_out += time.perf_counter() - self._since
            self._since = None

    def leave(self) -> None:
        """The script does something else, until it says that it trains."""
        self._synchronize()
        self._stand_still(time.perf_counter())
        self.between_epochs, self._updates_to_come = True, 0

    def end_epoch(self, updates_to_come: int) -> None:
        """An epoch is over, but perhaps for so many updates on batches that the script had read ahead."""
        self.leave()
        self.tail_s, self._updates_to_come, self._tail_since = 0.0, updates_to_come, time.perf_counter()

    def updated(self) -> None:
        """An update was made. After an epoch's end nothing but that tells a step on a batch read ahead from what is
        none, so that its time is counted only now.
        """
        if not self._updates_to_come:
            return
        assert self._since is not None
        self._synchronize()
        now = time.perf_counter()
        self._since += now - self._tail_since
        self.tail_s += now - self._tail_since
        self._updates_to_come, self._tail_since = self._updates_to_come - 1, now

    def read_other(self) -> None:
        """A loader begins to be iterated that the script does not train on."""
        self._updates_to_come = 0
        if self._other_began is None:
            self._synchronize()
            self._other_began = time.perf_counter()

    def end_tail(self) -> None:
        """What comes now is no step on a batch that was read ahead."""
        self._updates_to_come = 0

    def evaluate(self) -> None:
        """A model is evaluated: on the other loader, from where that was begun, if there is one."""
        if self._other_began is None:
            self._synchronize()
        self._stand_still(time.perf_counter() if self._other_began is None else self._other_began)

    def _stand_still(self, since: float) -> None:
        """Stand still, from `since` (a reading of `time.perf_counter`) on; does nothing while it does."""
        if self._since is None:
            self._since = since
