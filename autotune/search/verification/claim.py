"""V2: one candidate against the baseline, on fresh windows in ABBA order. The only source of a claimed speed-up."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autotune.config import Config
from autotune.search.verification.design import Design
from autotune.search.verification.schedule import abba
from autotune.search.verification.statistics import NOISE, Comparison, Verdict, compare, look_alpha
from autotune.search.verification.windows import Bench, Window, disturbances

BASELINE, CANDIDATE = "baseline", "candidate"
FEWEST_ROUNDS = 6  # of a plan's first look
CLOCK_MARGIN = 0.03  # by which a card's clock may differ within a round


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What may be said of one candidate, and the windows that it rests on."""

    baseline: Mapping[str, Any]
    candidate: Mapping[str, Any]
    alpha: float
    """share of false claims, over all looks"""
    seed: int
    looks: tuple[Comparison, ...] = ()
    """one an interval that was computed; the last one counts"""
    verdict: Verdict
    reason: str = ""
    """why the verdict is inconclusive"""
    failure: str = ""
    """why the candidate cannot be the answer: one of its windows failed"""
    windows: tuple[Window, ...] = ()

    @property
    def comparison(self) -> Comparison | None:
        return self.looks[-1] if self.looks else None

    @property
    def rounds_needed(self) -> int:
        """About how many rounds, undisturbed ones, would settle it; 0 where it is settled or nobody can say."""
        found = self.comparison
        if self.verdict is not Verdict.INCONCLUSIVE or found is None or self.failure:
            return 0
        return max(found.rounds_to_settle, FEWEST_ROUNDS)

    def reaches(self, speedup: float) -> bool:
        """Return whether the candidate is proven to be at least so many times as fast as the baseline.

        Noise alone is no reason against it: an interval around 1 may well lie above a value below 1.
        """
        found = self.comparison
        return found is not None and self.reason in ("", NOISE) and found.lower >= speedup

    @property
    def peaks(self) -> tuple[int, int]:
        """The largest peaks of baseline and candidate, of the memory that decides whether a config fits."""
        return largest_peak(self.windows, BASELINE), largest_peak(self.windows, CANDIDATE)

    @property
    def figures(self) -> Figures | None:
        """What both came to; None where one of them was never measured."""
        return figures_of(self.windows, BASELINE, CANDIDATE)


@dataclass(frozen=True, kw_only=True)
class Figures:
    """What baseline and candidate came to over the windows of a verification: geometric means, seconds."""

    baseline_sample_s: float
    candidate_sample_s: float
    baseline_step_s: float
    candidate_step_s: float


def largest_peak(windows: Sequence[Window], arm: str) -> int:
    """Return the largest peak of an arm, of the memory that decides whether a config fits; 0 where there is none."""
    return max((window.peak_bytes for window in windows if window.arm == arm), default=0)


def figures_of(windows: Sequence[Window], baseline: str, candidate: str) -> Figures | None:
    """Return the figures of two arms; None where one of them was never measured."""
    own = [[window for window in windows if window.arm == arm] for arm in (baseline, candidate)]
    samples = [_mean(window.sample_s for window in arm) for arm in own]
    steps = [_mean(window.step_s for window in arm) for arm in own]
    if samples[0] is None or samples[1] is None or steps[0] is None or steps[1] is None:
        return None
    return Figures(
        baseline_sample_s=samples[0],
        candidate_sample_s=samples[1],
        baseline_step_s=steps[0],
        candidate_step_s=steps[1],
    )


def claim(
    bench: Bench,
    baseline: Config,
    candidate: Config,
    design: Design,
    *,
    alpha: float,
    seed: int,
    stage: str = "claim",
    least: float | None = None,
) -> Claim:
    """Measure pairs until a planned look settles it, the plan is done or the time is up.

    With the same config twice this is the self-test: it should say "same" or "inconclusive".

    Args:
        least: speed-up that the candidate should reach: the looks go on while it lies within the interval, which the
            alphas of the planned looks allow for.
    """
    arms = {BASELINE: baseline, CANDIDATE: candidate}
    total = design.looks[-1]
    windows: list[Window] = []
    looks: list[Comparison] = []
    failure = reason = ""

    def look(of: int) -> Comparison:
        found = pairs(windows, BASELINE, CANDIDATE)
        return compare(*zip(*found, strict=True), alpha=look_alpha(alpha, of), margin=design.margin)

    for index, order in enumerate(abba(BASELINE, CANDIDATE, total, seed)):
        if not bench.affords(arms.values()):
            break
        for arm in order:
            window = bench.take(arms[arm], stage=stage, round=index, rounds=total, arm=arm)
            windows.append(window)
            if window.failure and arm == CANDIDATE:
                failure = window.failure
            elif window.failure:
                reason = f"the baseline failed: {window.failure}"
        if failure or reason:
            break
        if index + 1 in design.looks:
            looks.append(look(len(design.looks)))
            asked = least is not None and looks[-1].lower < least <= looks[-1].upper
            if looks[-1].verdict is not Verdict.INCONCLUSIVE and not asked and not disturbances(windows):
                break
    measured = len(pairs(windows, BASELINE, CANDIDATE))
    if measured >= 2 and (not looks or looks[-1].pairs < measured) and not (failure or reason):
        # the time ran out between looks: one that was never taken early need not share its alpha
        looks.append(look(len(design.looks) if looks else 1))
    reason = failure or reason or disturbances(windows)
    if looks and not reason and not _holds_in_cycles(windows, looks[-1], design.margin):
        reason = "environment: the card's clock differed between the two, and in clock cycles they are not told apart"
    if not looks:
        reason = reason or "no time for two rounds"
    verdict = Verdict.INCONCLUSIVE if reason else looks[-1].verdict
    return Claim(
        baseline=dict(baseline),
        candidate=dict(candidate),
        alpha=alpha,
        seed=seed,
        looks=tuple(looks),
        verdict=verdict,
        reason=reason or looks[-1].reason,
        failure=failure,
        windows=tuple(windows),
    )


def _holds_in_cycles(windows: Sequence[Window], found: Comparison, margin: float) -> bool:
    """Return whether a verdict of faster or slower also holds in clock cycles, where the card's clock moved."""
    clocks = _by_round(windows, lambda window: window.sm_clock_mhz or None, BASELINE, CANDIDATE)
    moved = any(abs(one / other - 1) > CLOCK_MARGIN for one, other in clocks)
    if not moved or found.verdict not in (Verdict.FASTER, Verdict.SLOWER):
        return True
    cycles = _by_round(windows, _cycles, BASELINE, CANDIDATE)
    if len(cycles) < 2:
        return True
    return compare(*zip(*cycles, strict=True), alpha=found.alpha, margin=margin).verdict is found.verdict


def _cycles(window: Window) -> float | None:
    """Return the clock cycles of a sample, in millions; None where the clock is not known."""
    return window.sample_s * window.sm_clock_mhz if window.sample_s and window.sm_clock_mhz else None


def pairs(windows: Sequence[Window], first: str, second: str) -> list[tuple[float, float]]:
    """Return the times of two arms, seconds a sample, from each round in which both were measured."""
    return _by_round(windows, lambda window: window.sample_s, first, second)


def _by_round(
    windows: Sequence[Window], figure: Callable[[Window], float | None], first: str, second: str
) -> list[tuple[float, float]]:
    times = {(window.round, window.arm): figure(window) for window in windows}
    rounds = sorted({window.round for window in windows})
    found = ((times.get((index, first)), times.get((index, second))) for index in rounds)
    return [(one, other) for one, other in found if one is not None and other is not None]


def _mean(times_s: Iterable[float | None]) -> float | None:
    logs = [math.log(time_s) for time_s in times_s if time_s is not None]
    return math.exp(sum(logs) / len(logs)) if logs else None
