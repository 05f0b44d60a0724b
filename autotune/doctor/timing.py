"""The quickest of a few runs: how long something takes by itself, where others only make it slower."""

from __future__ import annotations

import time
from collections.abc import Callable

ROUNDS = 5


def quickest(work: Callable[[], object], wait: Callable[[], None] = lambda: None, rounds: int = ROUNDS) -> float:
    """Return the seconds of the quickest of `rounds` runs after one that warms up.

    Args:
        work: what to time.
        wait: waits for the device.
    """
    took = []
    for _ in range(rounds + 1):
        wait()
        began = time.perf_counter()
        work()
        wait()
        took.append(time.perf_counter() - began)
    return max(min(took[1:]), 1e-9)
