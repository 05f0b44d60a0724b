"""Two configs compared by interleaved pairs of windows: the interval of the speed-up, and what it allows to say.

d_r = ln(baseline's time per sample / candidate's) of round r; the speed-up is exp(mean d), its interval Student's t
on the d. A percentile bootstrap would make 10 to 17 % false claims with so few pairs.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

MARGIN = 0.02  # speed-ups closer to 1 than this are of no practical interest
MIN_PAIRS = 4  # fewer leave Student's t at the mercy of its assumption of normal noise
MAX_DECIMALS = 4
NOISE = "noise"
"""the reason of an interval that is too wide to say anything"""

SEQUENTIAL = {0.05: 0.0221, 0.025: 0.0106}
"""alpha of each of up to three looks at 6, 9 and 12 pairs, by the alpha of all together (Pocock 1977).

Simulated with t tests: .0221 gives .049 in all, .0106 gives .0246.
"""


class Verdict(enum.StrEnum):
    """What may be said of a candidate against the baseline."""

    FASTER = "faster"
    SLOWER = "slower"
    SAME = "same"
    INCONCLUSIVE = "inconclusive"


NO_FASTER = (Verdict.SLOWER, Verdict.SAME)
"""verdicts that prove a candidate to be no better than the baseline"""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A candidate against the baseline after some rounds. Ratios are the baseline's time over the candidate's."""

    pairs: int
    alpha: float
    """of this look; the interval covers 1 - alpha"""
    speedup: float
    lower: float
    upper: float
    spread: float
    """standard deviation of the pairs' log ratios"""
    noise_floor: float
    """standard deviation of the baseline from one round to the next, relative"""
    median_speedup: float
    """Hodges-Lehmann estimate: does not follow a single odd pair"""
    verdict: Verdict
    """of these figures alone: a claim also looks at failures and disturbances"""
    reason: str = ""
    """why nothing can be said"""
    rounds_needed: int = 0
    """about so many rounds would show a difference of this size; 0 where the verdict stands"""
    rounds_to_settle: int = 0
    """the same whatever the verdict: for claims that disturbed windows left open"""

    @property
    def noise(self) -> float:
        """Half-width of the interval, relative."""
        return math.sqrt(self.upper / self.lower) - 1


def compare(
    baseline_s: Sequence[float], candidate_s: Sequence[float], *, alpha: float = 0.05, margin: float = MARGIN
) -> Comparison:
    """Compare windows that were measured in pairs; times in seconds a sample, two pairs at least."""
    logs = np.log(baseline_s) - np.log(candidate_s)
    pairs = len(logs)
    assert pairs >= 2, "an interval needs two pairs"
    mean, spread = float(logs.mean()), float(logs.std(ddof=1))
    quantile = t_quantile(1 - alpha / 2, pairs - 1)
    half = quantile * spread / math.sqrt(pairs)
    middle = hodges_lehmann(logs)
    verdict, reason = _judge(mean, half, middle, pairs, margin)
    rounds = _rounds_needed(mean, spread, quantile, margin)
    return Comparison(
        pairs=pairs,
        alpha=alpha,
        speedup=math.exp(mean),
        lower=math.exp(mean - half),
        upper=math.exp(mean + half),
        spread=spread,
        noise_floor=noise_floor(baseline_s),
        median_speedup=math.exp(middle),
        verdict=verdict,
        reason=reason,
        rounds_needed=rounds if verdict is Verdict.INCONCLUSIVE else 0,
        rounds_to_settle=rounds,
    )


def _judge(mean: float, half: float, middle: float, pairs: int, margin: float) -> tuple[Verdict, str]:
    if pairs < MIN_PAIRS:
        return Verdict.INCONCLUSIVE, f"only {pairs} rounds"
    if abs(mean) > half:
        if mean * middle <= 0:
            return Verdict.INCONCLUSIVE, "mean and median of the rounds disagree"
        return (Verdict.FASTER if mean > 0 else Verdict.SLOWER), ""
    if abs(mean) + half <= math.log1p(margin):
        return Verdict.SAME, ""
    return Verdict.INCONCLUSIVE, NOISE


def _rounds_needed(mean: float, spread: float, quantile: float, margin: float) -> int:
    """Return about how many rounds would settle it, at even odds: (t sd / half-width)^2.

    The half-width is what a verdict leaves room for: the mean, to be faster or slower, or what is left of the margin,
    to be the same.
    """
    half = max(abs(mean), math.log1p(margin) - abs(mean))
    return math.ceil((quantile * spread / half) ** 2)


def noise_floor(baseline_s: Sequence[float]) -> float:
    """Return the relative noise of a window, from one config's neighbours in time: sd(ln(t_r / t_r+1)) / sqrt 2."""
    steps = np.diff(np.log(baseline_s))
    return float(steps.std(ddof=1)) / math.sqrt(2) if len(steps) > 1 else 0.0


def hodges_lehmann(values: Sequence[float] | np.ndarray) -> float:
    """Return the median of all pairwise means: the centre by Wilcoxon's signed-rank test."""
    array = np.asarray(values)
    first, second = np.triu_indices(len(array))
    return float(np.median((array[first] + array[second]) / 2))


def t_quantile(probability: float, freedom: float) -> float:
    """Return the quantile of Student's t."""
    from scipy.special import stdtrit  # 0.2 s that commands which verify nothing need not pay

    return float(stdtrit(freedom, probability))


def look_alpha(overall: float, looks: int) -> float:
    """Return the alpha of each look so that `looks` of them together keep to `overall`."""
    return overall if looks == 1 else SEQUENTIAL[overall]


def decimals(half_width: float) -> int:
    """Return how many decimals a figure deserves: one unit of the last is no more than the half-width."""
    if half_width <= 0:
        return MAX_DECIMALS
    return min(max(math.ceil(-math.log10(half_width)), 0), MAX_DECIMALS)
