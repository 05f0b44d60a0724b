"""The statistics of a window of timed blocks: where warm-up ends, how sure the estimate is, when to stop.

Everything works on y = ln(seconds per sample of a block), so that half-widths are relative.
Of scipy only `special`, which the fork server has imported for all trials; `stats` would take a second.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from autotune.records import Block

Series = npt.NDArray[np.float64]

CONFIDENCE = 0.95  # of the half-width within the run
MIN_KEPT = 8  # below that the autocorrelation, and so the half-width, means little
MIN_FOR_SLOWER = 5  # the simulated rate of wrongly pruned equals is 0 from five blocks on
SLOWER_MARGIN = 1.10  # so much slower than the best, at the lower bound, cannot become the best
MIN_FOR_TREND = 20  # with 12 blocks a late 25 % change is caught in 20 % of runs, with 24 in 92 %
MIN_FOR_NOISE = 20
NOISE_LAG = 8  # blocks over which the half-width must have stopped shrinking ...
NOISE_SHRINKAGE = 0.10  # ... by at least this share
TREND_P = 0.01
TREND_CHANGE = 0.03  # a significant trend smaller than this is of no interest
BURSTY_RATIO = 1.05  # mean over median
MAX_AUTOCORRELATION = 0.9
MIN_FIXED_S = 2.0  # shortest window of a verification
EXTENSION = 0.5  # of the budget, once, before a run is called unsteady
MOST_LEFT_OUT = 2.0  # budgets that a script's own evaluations may take beside the window


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """What a window of blocks says. Times are seconds a sample."""

    sample_s: float
    """exp of the median of the kept y"""
    uncertainty: float
    """half-width of the 95 % interval of the mean of y, so relative; says nothing about another run.

    inf with one block. Blocks that truncation drops make it a little small: simulated coverage 94 % with
    independent blocks, 80 to 88 % with autocorrelation 0.3.
    """
    kept_from: int
    """index of the first block that counts: the ones before are warm-up"""
    autocorrelation: float
    """lag 1, corrected for bias and clipped to 0 .. 0.9"""
    mean_sample_s: float
    """wall time over samples of the kept blocks"""
    p95_sample_s: float
    bursty: bool
    """whether the mean lies more than 5 % above the median: some blocks take far longer than most"""


@dataclass(frozen=True, kw_only=True)
class Decision:
    """Why the window ends."""

    kind: Literal["precise", "slower", "noise", "budget", "fixed"]
    unmet: str = ""
    """the condition that was not met, for people; empty where all were"""


def estimate(blocks: Sequence[Block]) -> Estimate:
    """Return what `blocks` (at least one) say."""
    assert blocks, "no block was measured"
    found = _Spread.of(_log_times(blocks))
    kept = found.kept
    counted = blocks[found.start :]
    middle = float(np.median(kept))
    mean = sum(block.wall_s for block in counted) / sum(block.samples for block in counted)
    return Estimate(
        sample_s=math.exp(middle),
        uncertainty=found.half_width,
        kept_from=found.start,
        autocorrelation=found.autocorrelation,
        mean_sample_s=mean,
        p95_sample_s=math.exp(float(np.quantile(kept, 0.95))),
        bursty=mean > BURSTY_RATIO * math.exp(middle),
    )


def steady(blocks: Sequence[Block]) -> bool:
    """Return whether the window shows one speed; True where there are too few blocks to tell."""
    return len(blocks) < MIN_FOR_TREND or _Spread.of(_log_times(blocks)).steady


@dataclass(kw_only=True)
class StopRule:
    """Decides after each block whether the window is long enough.

    Each window needs a rule of its own: the rule remembers that it has extended the window.
    """

    target: float = 0.03
    """half-width that is precise enough"""
    min_s: float = 1.5
    """shortest window"""
    budget_s: float = 15.0
    best_sample_s: float | None = None
    """of the search so far, seconds a sample, all included; None: never stop a slower one early"""
    start_share_s: float = 0.0
    """of this trial's start, seconds a sample; its epochs' restarts are not known yet"""
    fixed_blocks: int | None = None
    """measure by plan: at least this many blocks and 2 s, whatever they say"""
    _extended_until_s: float | None = field(default=None, init=False, repr=False)

    def decide(self, blocks: Sequence[Block], left_out_s: float = 0.0) -> Decision | None:
        """Return why to stop after `blocks`, or None to go on.

        Args:
            left_out_s: seconds since the window began that are in no step, as a script's own evaluations
        """
        count = len(blocks)
        measured_s = sum(block.wall_s for block in blocks)
        if count >= MIN_FOR_SLOWER and left_out_s > MOST_LEFT_OUT * self.budget_s:
            return self._cut_short(blocks, measured_s, left_out_s)
        if self.fixed_blocks is not None:
            enough = count >= self.fixed_blocks and measured_s >= max(self.min_s, MIN_FIXED_S)
            return Decision(kind="fixed") if enough else None
        if count < MIN_FOR_SLOWER and measured_s < self.budget_s:
            return None
        found = _Spread.of(_log_times(blocks))
        if self._clearly_slower(found):
            return Decision(kind="slower")
        decision = self._wanted(found, measured_s)
        if decision is None or found.steady:
            return decision
        if self._extended_until_s is None:
            self._extended_until_s = measured_s + EXTENSION * self.budget_s
        if measured_s < self._extended_until_s:
            return None
        return Decision(kind="budget", unmet="no steady state")

    def _cut_short(self, blocks: Sequence[Block], measured_s: float, left_out_s: float) -> Decision:
        if not self._unmet(_Spread.of(_log_times(blocks)), measured_s):
            return Decision(kind="precise")
        return Decision(
            kind="budget", unmet=f"evaluations took {left_out_s:.0f} s beside {measured_s:.1f} s of training steps"
        )

    def _clearly_slower(self, found: _Spread) -> bool:
        if self.best_sample_s is None or len(found.y) < MIN_FOR_SLOWER or found.still_warming:
            return False
        fastest = math.exp(float(found.kept.mean()) - found.half_width) + self.start_share_s
        return fastest > SLOWER_MARGIN * self.best_sample_s

    def _wanted(self, found: _Spread, measured_s: float) -> Decision | None:
        """Return the decision that holds if the run is steady."""
        unmet = self._unmet(found, measured_s)
        if not unmet:
            return Decision(kind="precise")
        if len(found.y) >= MIN_FOR_NOISE and measured_s >= self.min_s and not found.still_warming:
            earlier = _Spread.of(found.y[:-NOISE_LAG]).half_width
            if found.half_width > (1 - NOISE_SHRINKAGE) * earlier:
                return Decision(kind="noise", unmet=unmet)
        return Decision(kind="budget", unmet=unmet) if measured_s >= self._limit_s() else None

    def _limit_s(self) -> float:
        return self.budget_s if self._extended_until_s is None else self._extended_until_s

    def _unmet(self, found: _Spread, measured_s: float) -> str:
        """Return the first condition of a precise window that is not met, or nothing."""
        if len(found.kept) < MIN_KEPT:
            return f"{len(found.kept)} blocks after warm-up, fewer than {MIN_KEPT}"
        if found.still_warming:
            return "warm-up had not ended"
        if measured_s < self.min_s:
            return f"{measured_s:.1f} s measured, less than {self.min_s:g} s"
        if found.half_width > self.target:
            return f"half-width {found.half_width:.1%}, wider than {self.target:.1%}"
        return ""


@dataclass(frozen=True)
class _Spread:
    """A series, what remains of it after warm-up truncation, and how much that scatters."""

    y: Series
    start: int
    kept: Series
    autocorrelation: float
    half_width: float

    @classmethod
    def of(cls, y: Series) -> _Spread:
        start = warmup_end(y)
        kept = y[start:]
        rho = autocorrelation(kept)
        return cls(y, start, kept, rho, half_width(kept, rho))

    @property
    def still_warming(self) -> bool:
        """Whether truncation went to the end of its range, so that warm-up may not be over."""
        return self.start == len(self.y) // 2 and self.start > 0

    @property
    def steady(self) -> bool:
        """Whether no trend is seen: in what was kept, or in all where truncation found no end."""
        return not trending(self.kept) and not (self.still_warming and trending(self.y))


def warmup_end(y: Series) -> int:
    """Return how many blocks to drop from the front: the MSER rule (White 1997).

    Minimises sum((y_i - mean)^2) / (n - d)^2 over the blocks after the d dropped ones, d up to half of them.
    """
    last = len(y) // 2
    counts = len(y) - np.arange(last + 1)
    centred = y - y[-1]  # differences of large sums would lose digits otherwise
    sums = np.cumsum(centred[::-1])[counts - 1]
    squares = np.cumsum(centred[::-1] ** 2)[counts - 1]
    return int(np.argmin((squares - sums**2 / counts) / counts**2))


def autocorrelation(y: Series) -> float:
    """Return the lag-1 autocorrelation plus 1/n, which cancels most of its bias, clipped to 0 .. 0.9."""
    centred = y - y.mean()
    variance = float(centred @ centred)
    if variance == 0.0:
        return 0.0
    raw = float(centred[1:] @ centred[:-1]) / variance
    return min(max(raw + 1 / len(y), 0.0), MAX_AUTOCORRELATION)


def half_width(y: Series, rho: float) -> float:
    """Return the half-width of the interval of the mean of an AR(1) series: t * s / sqrt(n_eff).

    n_eff = n (1 - rho) / (1 + rho).
    """
    if len(y) < 2:
        return math.inf
    effective = len(y) * (1 - rho) / (1 + rho)
    quantile = float(stdtrit(max(effective - 1, 2.0), (1 + CONFIDENCE) / 2))
    return quantile * float(y.std(ddof=1)) / math.sqrt(effective)


def trending(y: Series) -> bool:
    """Return whether the series has a significant trend (Mann-Kendall) that also moves its halves apart."""
    count = len(y)
    if count < MIN_KEPT:
        return False
    change = math.exp(float(np.median(y[count // 2 :]) - np.median(y[: count // 2]))) - 1
    if abs(change) <= TREND_CHANGE:
        return False
    later, earlier = np.tril_indices(count, -1)
    score = float(np.sign(y[later] - y[earlier]).sum())
    z = (abs(score) - 1) / math.sqrt(count * (count - 1) * (2 * count + 5) / 18)
    return math.erfc(z / math.sqrt(2)) < TREND_P


def _log_times(blocks: Sequence[Block]) -> Series:
    """Return ln(seconds per sample) of each block."""
    return np.log([block.wall_s / block.samples for block in blocks])
