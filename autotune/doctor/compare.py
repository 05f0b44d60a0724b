"""The step with a change and without, in turn, in one process: what a fix gives, where it can be tried."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import numpy as np

from autotune.measure.blocks import half_width

MIN_PAIRS = 5
MAX_PAIRS = 12
MIN_WINDOW_S = 0.05
PRECISE = 0.02  # half-width of the log ratio that is good enough
LOOK_AT_S = 6.0  # seconds that one comparison may take

Change = Callable[[], AbstractContextManager[object]]
"""lets the fix take effect, and undoes it at the end of the with statement"""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """What a change gave."""

    saved: float
    """share of the time without the change; negative: it cost"""
    half_width: float
    """of the 95 % interval of the log ratio, from pairs in one process"""
    pairs: int

    @property
    def clear(self) -> bool:
        """Whether the interval shows a gain."""
        return math.log1p(-min(self.saved, 0.999)) + self.half_width < 0


def compare(
    step: Callable[[int], float],
    change: Change,
    *,
    seconds: float = LOOK_AT_S,
    clock: Callable[[], float],
    multiple: int = 1,
) -> Comparison:
    """Time steps without and with the change, in ABBA order.

    Args:
        step: (count) -> seconds that so many steps took, everything finished.
        change: the fix.
        seconds: to spend, about.
        clock: by which they are counted.
        multiple: of so many steps each part is, as several may make one update.
    """
    began = clock()
    step(multiple)
    once = step(multiple)
    count = multiple * max(1, math.ceil(MIN_WINDOW_S / max(once, 1e-6)))
    logs: list[float] = []
    while len(logs) < MAX_PAIRS:
        if len(logs) % 2 == 0:
            plain, changed = _under(step, nullcontext, count, multiple), _under(step, change, count, multiple)
        else:
            changed, plain = _under(step, change, count, multiple), _under(step, nullcontext, count, multiple)
        logs.append(math.log(max(changed, 1e-9) / max(plain, 1e-9)))
        if len(logs) >= MIN_PAIRS:
            spread = half_width(np.array(logs), 0.0)
            if spread < PRECISE or clock() - began > seconds:
                break
        elif clock() - began > 2 * seconds and len(logs) >= 2:
            break
    y = np.array(logs)
    return Comparison(saved=1.0 - math.exp(float(np.median(y))), half_width=half_width(y, 0.0), pairs=len(logs))


def _under(step: Callable[[int], float], change: Change, count: int, warm: int) -> float:
    with change():
        step(warm)  # what a switch costs once
        return step(count)
