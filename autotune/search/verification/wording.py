"""A verdict in one line. Nothing may be printed of a speed-up that is not said here."""

from __future__ import annotations

import math

from autotune.search.verification.attribution import Confirmation, Contribution
from autotune.search.verification.claim import Claim
from autotune.search.verification.statistics import NOISE, Verdict, decimals


def sentence(result: Claim | Confirmation) -> str:
    """Return the claim: "1.23x faster per sample than your baseline (95 % CI 1.17-1.29, 9 interleaved A/B rounds,
    fresh processes)", "no measurable difference (CI 0.98-1.02)", "inconclusive: noise +-9 %; ...".

    Throughput only: the caller adds what a new batch size or precision may do to convergence.
    """
    if isinstance(result, Claim):
        comparison, verdict = result.comparison, result.verdict
    else:
        comparison = result.to_baseline
        settled = comparison is not None and not result.reason
        verdict = comparison.verdict if comparison and settled else Verdict.INCONCLUSIVE
    if comparison is None or (verdict is Verdict.INCONCLUSIVE and result.reason not in ("", NOISE)):
        needed = result.rounds_needed if isinstance(result, Claim) else 0
        more = f"; about {needed} undisturbed rounds would be needed (--wait-idle waits for a quiet machine)"
        return f"inconclusive: {result.reason}" + (more if needed else "")
    if verdict is Verdict.INCONCLUSIVE:
        rounds = f"about {comparison.rounds_needed} rounds would be needed"
        return f"inconclusive: noise +-{_percent(comparison.noise)} %; {rounds}"
    if verdict is Verdict.SAME:
        return f"no measurable difference (CI {_interval(comparison.lower, comparison.upper)})"
    faster = verdict is Verdict.FASTER
    word = "faster" if faster else "slower"
    ratio = comparison.speedup if faster else 1 / comparison.speedup
    bounds = (comparison.lower, comparison.upper) if faster else (1 / comparison.upper, 1 / comparison.lower)
    confidence = f"{100 * (1 - result.alpha):g} % CI {_interval(*bounds)}"
    evidence = f"{confidence}, {comparison.pairs} interleaved A/B rounds, fresh processes"
    return f"{_ratio(ratio, *bounds)}x {word} per sample than your baseline ({evidence})"


def contribution(item: Contribution) -> str:
    """Return what an option gives: "precision = bf16: 1.31x (95 % CI 1.25-1.38)"."""
    found = item.comparison
    name = f"{item.option} = {item.value}"
    if found is None or item.reason:
        return f"{name}: {item.reason}"
    interval = f"95 % CI {_interval(found.lower, found.upper)}"
    if found.verdict in (Verdict.SAME, Verdict.INCONCLUSIVE):
        return f"{name}: no gain seen ({interval})"
    return f"{name}: {_ratio(found.speedup, found.lower, found.upper)}x ({interval})"


def _ratio(value: float, lower: float, upper: float) -> str:
    """Return the ratio in as many digits as the interval supports."""
    return f"{value:.{decimals((upper - lower) / 2)}f}"


def _interval(lower: float, upper: float) -> str:
    """Return the interval, rounded outwards so that it never says more than was found."""
    places = max(2, decimals((upper - lower) / 2))
    scale = 10**places
    # what lies this close to a figure is that figure, off by floating point
    low, high = math.floor(lower * scale + 1e-6) / scale, math.ceil(upper * scale - 1e-6) / scale
    return f"{low:.{places}f}-{high:.{places}f}"


def _percent(share: float) -> str:
    return f"{100 * share:.{decimals(100 * share)}f}"
