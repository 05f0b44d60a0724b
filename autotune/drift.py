"""Drift: whether the machine's speed changed during a search, from the repeated runs of the baseline."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from autotune.records import TrialRecord

LEAST = 0.10  # a smaller change is what two processes of one config differ by on a quiet machine
HALF_WIDTHS = 3  # of the runs' own uncertainty


@dataclass(frozen=True, kw_only=True)
class Drift:
    """Two undisturbed runs of the baseline that differ by more than their noise allows."""

    first: int
    """number of the earlier trial"""
    last: int
    ratio: float
    """time per sample of the later over that of the earlier"""

    def sentence(self) -> str:
        word = "longer" if self.ratio > 1 else "less"
        return (
            f"machine drifted: the baseline took {abs(self.ratio - 1):.0%} {word} in trial {self.last} than in trial "
            f"{self.first}; what was measured between is not comparable with the rest (only a verification is)"
        )

    def covers(self, number: int) -> bool:
        """Return whether a trial was measured while the machine changed."""
        return self.first < number < self.last


def drifts(records: Sequence[TrialRecord]) -> list[Drift]:
    """Return the changes from each undisturbed run of the baseline to the next, and the one from the first to the last.

    Args:
        records: of a search, in the order of their numbers; the first is the baseline's.
    """
    searched = [record for record in records if record.kind not in ("probe", "verification")]
    baseline = dict(searched[0].config) if searched else {}
    runs = [record for record in searched if record.measurement is not None and dict(record.config) == baseline]
    runs = [record for record in runs if record.measurement is not None and not record.measurement.disturbed]
    found = [drift for pair in itertools.pairwise(runs) if (drift := _between(*pair)) is not None]
    if not found and len(runs) > 2 and (slow := _between(runs[0], runs[-1])) is not None:
        found.append(slow)
    return found


def _between(earlier: TrialRecord, later: TrialRecord) -> Drift | None:
    one, other = earlier.measurement, later.measurement
    assert one is not None
    assert other is not None
    ratio = other.sample_s / one.sample_s
    allowed = max(LEAST, HALF_WIDTHS * max(one.uncertainty, other.uncertainty))
    if abs(math.log(ratio)) <= math.log1p(allowed):
        return None
    return Drift(first=earlier.number, last=later.number, ratio=ratio)
