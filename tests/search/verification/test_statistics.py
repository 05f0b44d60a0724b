"""The comparison of paired windows: its verdicts, and how often they are wrong."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from autotune.search.verification.statistics import (
    SEQUENTIAL,
    Verdict,
    compare,
    decimals,
    hodges_lehmann,
    look_alpha,
    noise_floor,
)

LOOKS = (6, 9, 12)


def paired(log_ratios):
    """Return times of a baseline and a candidate with these log ratios between them."""
    return np.exp(log_ratios), np.ones(len(log_ratios))


def test_interval_is_students_t_on_log_ratios():
    logs = np.array([0.10, 0.14, 0.06, 0.12, 0.09, 0.13])
    found = compare(*paired(logs))
    low, high = stats.t.interval(0.95, 5, loc=logs.mean(), scale=stats.sem(logs))
    assert (found.lower, found.upper) == pytest.approx((math.exp(low), math.exp(high)))
    assert found.speedup == pytest.approx(math.exp(logs.mean()))
    assert found.verdict is Verdict.FASTER


@pytest.mark.parametrize(
    ("centre", "sd", "verdict"),
    [
        (0.20, 0.03, Verdict.FASTER),
        (-0.20, 0.03, Verdict.SLOWER),
        (0.0005, 0.005, Verdict.SAME),
        (0.01, 0.08, Verdict.INCONCLUSIVE),
    ],
)
def test_verdicts(centre, sd, verdict):
    ripple = sd * np.array([1.0, -0.9, 0.8, -1.1, 0.4, -0.2])
    assert compare(*paired(centre + ripple)).verdict is verdict


def test_fewer_than_four_pairs_claim_nothing():
    found = compare(*paired([0.20, 0.21, 0.20]))
    assert (found.verdict, found.reason) == (Verdict.INCONCLUSIVE, "only 3 rounds")


def test_mean_and_median_must_point_the_same_way():
    logs = np.array([0.9, -0.01, -0.01, -0.01, -0.01, -0.01])
    found = compare(*paired(logs), alpha=0.9)  # an alpha that lets the one odd pair through
    assert (found.verdict, found.reason) == (
        Verdict.INCONCLUSIVE,
        "mean and median of the rounds disagree",
    )


def test_rounds_needed_follow_from_spread_and_size():
    found = compare(*paired(0.05 + 0.1 * np.array([1, -1, 1, -1, 1, -1])))
    assert found.verdict is Verdict.INCONCLUSIVE
    expected = (stats.t.ppf(0.975, 5) * found.spread / math.log(found.speedup)) ** 2
    assert found.rounds_needed == math.ceil(expected)


def test_hodges_lehmann_ignores_one_odd_pair():
    assert hodges_lehmann([0.1, 0.1, 0.1, 0.1, 5.0]) == pytest.approx(0.1)


def test_noise_floor_of_independent_windows():
    rng = np.random.default_rng(1)
    assert noise_floor(np.exp(rng.normal(0, 0.05, 4000))) == pytest.approx(0.05, rel=0.05)
    assert noise_floor([1.0, 1.1]) == 0.0


@pytest.mark.parametrize(
    ("half_width", "places"), [(0.06, 2), (0.1, 1), (0.5, 1), (2.0, 0), (0.004, 3), (1e-9, 4), (0.0, 4)]
)
def test_digits_are_those_that_the_interval_supports(half_width, places):
    assert decimals(half_width) == places


@pytest.mark.parametrize("overall", sorted(SEQUENTIAL))
def test_three_looks_keep_to_their_alpha(overall):
    """And looking after every pair until something shows does not."""
    rng = np.random.default_rng(2)
    series = rng.normal(0, 0.05, (4000, 12))

    def rate(alphas: dict[int, float]) -> float:
        hits = np.zeros(len(series), dtype=bool)
        for pairs, alpha in alphas.items():
            seen = series[:, :pairs]
            t = np.abs(seen.mean(1)) / (seen.std(1, ddof=1) / math.sqrt(pairs))
            hits |= t > stats.t.ppf(1 - alpha / 2, pairs - 1)
        return float(hits.mean())

    assert rate({pairs: look_alpha(overall, 3) for pairs in LOOKS}) <= 1.2 * overall
    if overall == 0.05:
        assert rate({pairs: 0.05 for pairs in LOOKS}) > 0.085
        assert rate({pairs: 0.05 for pairs in range(4, 13)}) > 0.12


@pytest.mark.parametrize("pairs", [6, 8, 12])
def test_equal_configs_are_told_apart_in_five_percent(pairs):
    rng = np.random.default_rng(3)
    verdicts = [compare(*paired(rng.normal(0, 0.05, pairs))).verdict for _ in range(1500)]
    claims = sum(verdict in (Verdict.FASTER, Verdict.SLOWER) for verdict in verdicts)
    assert claims / 1500 <= 0.065


def test_outliers_make_it_more_careful_not_less():
    rng = np.random.default_rng(4)
    claims = 0
    for _ in range(1500):
        odd = rng.random(8) < 0.1
        logs = rng.normal(0, 0.03, 8) + odd * rng.normal(0, 0.3, 8)
        claims += compare(*paired(logs)).verdict in (Verdict.FASTER, Verdict.SLOWER)
    assert claims / 1500 <= 0.04
