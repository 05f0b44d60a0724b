"""What a search hands out: the least time a sample, or the least memory of what is fast enough."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Aim:
    """Orders configs, and whatever stands for one."""

    keep: float | None = None
    """share of the best throughput that is enough where the peak is to be small; None: the least time wins"""

    def order(
        self,
        items: Iterable[T],
        time_s: Callable[[T], float],
        peak_bytes: Callable[[T], float],
        beside_s: float = math.inf,
    ) -> list[T]:
        """Return the items that are answers, best first.

        Args:
            time_s: seconds a sample.
            peak_bytes: of the memory that is to be small.
            beside_s: seconds a sample of the baseline, where that is none of the items: it may be the fastest.
        """
        fastest_first = sorted(items, key=time_s)
        if self.keep is None or not fastest_first:
            return fastest_first
        slowest_s = min(time_s(fastest_first[0]), beside_s) / self.keep
        return sorted((item for item in fastest_first if time_s(item) <= slowest_s), key=peak_bytes)

    def prefers_baseline(self, speedup: float, baseline_bytes: float, config_bytes: float) -> bool:
        """Return whether the baseline is the better answer of the two, for an aim at memory.

        The smaller one is, unless the other is faster by more than may be given up.
        """
        assert self.keep is not None
        return speedup < self.keep if config_bytes < baseline_bytes else speedup <= 1 / self.keep


FASTEST = Aim()
