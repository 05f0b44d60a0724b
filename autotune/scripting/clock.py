"""The clock of a script's training: it stands still while the script does something else, as evaluate."""

from __future__ import annotations

import time
from collections.abc import Callable


class TrainingClock:
    """Seconds of training; callable like `time.perf_counter`."""

    def __init__(self) -> None:
        self._left_out = 0.0  # seconds
        self._since: float | None = None

    def __call__(self) -> float:
        return (time.perf_counter() if self._since is None else self._since) - self._left_out

    def left_out(self) -> float:
        """Return the seconds of all pauses that are over."""
        return self._left_out

    def pause(self, since: float | None = None) -> None:
        """Stand still, from `since` (a reading of `time.perf_counter`) on; does nothing while it does."""
        if self._since is None:
            self._since = time.perf_counter() if since is None else since

    def resume(self) -> None:
        if self._since is not None:
            self._left_out += time.perf_counter() - self._since
            self._since = None

    def make_up(self, seconds: float) -> None:
        """Count seconds that have passed while it stands still: they were training."""
        assert self._since is not None
        self._since += seconds


class Tail:
    """The steps that come after an epoch's end, on batches that the script had read ahead: they are training, too."""

    def __init__(self, clock: TrainingClock, synchronize: Callable[[], None]) -> None:
        self.seconds = 0.0
        """of the last epoch's"""
        self._clock, self._synchronize = clock, synchronize
        self._updates = 0
        """that are still to come"""
        self._since = 0.0

    def begin(self, updates: int) -> None:
        """An epoch ends, and the clock stands still: so many updates are perhaps to come."""
        self.seconds, self._updates, self._since = 0.0, updates, time.perf_counter()

    def updated(self) -> None:
        """Note an update; what went before it is counted only now, as nothing else tells a step from what is none."""
        if not self._updates:
            return
        self._synchronize()
        now = time.perf_counter()
        self._clock.make_up(now - self._since)
        self.seconds += now - self._since
        self._updates, self._since = self._updates - 1, now

    def end(self) -> None:
        """What comes now is something else."""
        self._updates = 0
