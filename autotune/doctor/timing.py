"""How long a piece of work takes: at its quickest, or typically."""

from __future__ import annotations

import time
from collections.abc import Callable

ROUNDS = 5


def quickest(work: Callable[[], object], wait: Callable[[], None] = lambda: None, rounds: int = ROUNDS) -> float:
    """Return the seconds of the quickest of `rounds` runs after one that warms up: others only make it slower.

    Args:
        work: what to time.
        wait: waits for the device.
    """
    work()
    return min(_once(work, wait) for _ in range(rounds))


def typical(work: Callable[[], object], wait: Callable[[], None] = lambda: None, rounds: int = 2 * ROUNDS + 1) -> float:
    """Return the median of the same: how long something takes beside what else runs, as the steps beside it do."""
    work()
    took = sorted(_once(work, wait) for _ in range(rounds))
    return took[len(took) // 2]


def _once(work: Callable[[], object], wait: Callable[[], None]) -> float:
    wait()
    began = time.perf_counter()
    work()
    wait()
    return max(time.perf_counter() - began, 1e-9)
