"""A config with every run that counts of it, which configs may be answers, and in which order."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from autotune.config import Config
from autotune.options.accumulation import samples_per_update
from autotune.records import Outcome, TrialRecord
from autotune.repeats import undisturbed
from autotune.search.aim import Aim
from autotune.search.observation import Observation
from autotune.search.setup import Wishes


@dataclass
class Measured:
    """One canonical config and all that was seen of it."""

    config: Config
    records: list[TrialRecord] = field(default_factory=list)
    """of the runs that count: a repeat stands in the place of the disturbed run before it"""
    seen: list[Observation] = field(default_factory=list)
    repeated: bool = False
    """whether the last run had its repeat"""
    reference: bool = False
    """whether it is the baseline, which is measured again and again"""

    def add(self, record: TrialRecord, seen: Observation) -> None:
        self.repeated = seen.repeat
        if seen.repeat and self.records:
            if seen.replaces:
                self.records[-1], self.seen[-1] = record, seen
        else:
            self.records.append(record)
            self.seen.append(seen)

    @property
    def repeat_due(self) -> bool:
        """Whether its last run was disturbed, and was not itself the one repeat that a run gets."""
        last = self.records[-1] if self.records else None
        return not self.repeated and last is not None and last.measurement is not None and last.measurement.disturbed

    @property
    def sample_s(self) -> float | None:
        """Seconds a sample: the geometric mean of its runs that count; None where none was measured."""
        runs = [record.measurement for record in self.records if record.measurement is not None]
        times = [run.sample_s for run in undisturbed(runs)]
        return math.exp(sum(map(math.log, times)) / len(times)) if times else None

    @property
    def peak_bytes(self) -> int:
        """The largest peak of its runs; 0 where none was measured."""
        return max((item.peak_bytes or 0 for item in self.seen), default=0)

    @property
    def usable(self) -> bool:
        """Whether it ran, fitted, and was not stopped as clearly slower: each time, or as the baseline mostly."""
        fine = [item.outcome is Outcome.OK and item.fits is not False for item in self.seen]
        return 2 * sum(fine) > len(fine) if self.reference else bool(fine) and all(fine)

    @property
    def sound(self) -> bool:
        """Whether one of its runs, at least, shows the config alone."""
        return any(record.measurement is not None and not record.measurement.disturbed for record in self.records)


def eligible(measured: Sequence[Measured], baseline: Config, wishes: Wishes) -> list[Measured]:
    """Return the configs that may be answers: they ran, fitted, and are what the user wishes.

    Configs whose every run was disturbed are left out where others, beside the baseline, were not: where the whole
    search was disturbed, leaving them out would make the baseline win unopposed. The baseline itself always stays:
    what is slower than it, disturbed as it was, is no answer.
    """
    usable = [item for item in measured if item.usable]
    if (whole := wishes.effective_batch) is not None:  # the baseline may make others
        usable = [item for item in usable if samples_per_update(item.config) == whole] or usable
    if any(item.sound for item in usable if item.config != baseline):
        usable = [item for item in usable if item.sound or item.config == baseline]
    return usable


def ranked(eligible: Iterable[Measured], aim: Aim) -> list[Measured]:
    """Return them best first; those that are too slow to be answers are left out."""
    return aim.order(eligible, lambda item: item.sample_s or math.inf, lambda item: item.peak_bytes or math.inf)
