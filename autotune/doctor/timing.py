"""How long a piece of work takes: at its quickest, or as a part of a step."""

from __future__ import annotations

import time
from collections.abc import Callable

ROUNDS = 5

Work = Callable[[], object]
Wait = Callable[[], None]


def quickest(work: Work, wait: Wait = lambda: None, rounds: int = ROUNDS) -> float:
    """Return the seconds of the quickest of `rounds` runs after one that warms up: others only make it slower.

    Args:
        work: what to time.
        wait: waits for the device.
    """
    work()
    return min(_once(work, wait, time.perf_counter) for _ in range(rounds))


def typical(work: Work, wait: Wait = lambda: None, clock: Callable[[], float] = time.perf_counter) -> float:
    """Return the median seconds, by `clock`, of some runs after one that warms up."""
    work()
    took = sorted(_once(work, wait, clock) for _ in range(2 * ROUNDS + 1))
    return took[len(took) // 2]


def stretch(work: Work) -> float:
    """Return the time that passes for each second of the processor's that `work` takes, all threads together.

    On a busy machine a step is stopped again and again, and what is shorter than the scheduler's slice is not. Timed by
    the processor and multiplied by this, a short piece of work counts as if it had been a part of the step.
    """
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return (time.perf_counter() - wall) / max(time.process_time() - cpu, 1e-9)


def _once(work: Work, wait: Wait, clock: Callable[[], float]) -> float:
    wait()
    began = clock()
    work()
    wait()
    return max(clock() - began, 1e-9)
