"""After how many steps a compiled config has earned back what compiling costs at the start.

    steps = (extra start-up) / (saving per sample) / (samples per step)

Only with a proven speed-up: without one there is no saving to speak of.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

from autotune.config import Config
from autotune.options.accumulation import samples_per_update
from autotune.plan import plan_for
from autotune.records import Measurement, TrialRecord
from autotune.search.verification.claim import BASELINE, CANDIDATE, Claim
from autotune.search.verification.statistics import Verdict


@dataclass(frozen=True, kw_only=True)
class PayBack:
    """What compiling costs and what it saves."""

    extra_s: float
    """of the start, against the baseline's"""
    saving_s: float
    """per sample, once training runs at its pace"""
    samples_per_step: int
    """of the baseline, whose steps are counted"""
    planned_samples: int | None = None

    @property
    def steps(self) -> float:
        return self.extra_s / self.saving_s / self.samples_per_step

    @property
    def sentence(self) -> str:
        """The pay-back in words, and as a share of the training where its length was said."""
        saving_ms = 1e3 * self.saving_s * self.samples_per_step
        costs = f"{self.extra_s:.0f} s more at the start, {saving_ms:.2g} ms saved per step"
        planned = ""
        if self.planned_samples:
            share = 100 * self.steps * self.samples_per_step / self.planned_samples
            planned = f", {share:.2g} % of what you plan to train"
        return (
            f"Compiling pays back after about {_round(self.steps):,} steps of {self.samples_per_step} "
            f"samples{planned} ({costs})."
        )


def pay_back(claim: Claim, record_of: Callable[[int], TrialRecord], planned_samples: int | None) -> PayBack | None:
    """Return when the claim's candidate pays back; None where nothing is compiled, proven or saved.

    Args:
        record_of: the record of a window, by its number.
    """
    baseline, candidate = Config(**claim.baseline), Config(**claim.candidate)
    if claim.verdict is not Verdict.FASTER or not plan_for(candidate).compiles or plan_for(baseline).compiles:
        return None
    before, after = (_runs(claim, arm, record_of) for arm in (BASELINE, CANDIDATE))
    if not before or not after:
        return None
    extra_s = median(run.start_s for run in after) - median(run.start_s for run in before)
    saving_s = median(run.steady_sample_s for run in before) - median(run.steady_sample_s for run in after)
    if extra_s <= 0 or saving_s <= 0:
        return None
    return PayBack(
        extra_s=extra_s,
        saving_s=saving_s,
        samples_per_step=samples_per_update(baseline),
        planned_samples=planned_samples,
    )


def _runs(claim: Claim, arm: str, record_of: Callable[[int], TrialRecord]) -> list[Measurement]:
    records = [record_of(window.trial) for window in claim.windows if window.arm == arm and not window.failure]
    return [record.measurement for record in records if record.measurement is not None]


def _round(steps: float) -> int:
    """Return the number with two digits that mean something."""
    whole = max(1, round(steps))
    unit = int(10 ** max(0, len(str(whole)) - 2))
    return int(round(whole / unit) * unit)
