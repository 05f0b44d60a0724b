"""The clock of a script's training: it stands still while the script does something else, as evaluate."""

from __future__ import annotations

import time


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
