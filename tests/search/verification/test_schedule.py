"""The order of windows: each arm once a round, drift cancelled."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from autotune.search.verification.schedule import abba, mirrored


@given(arms=st.integers(1, 8), rounds=st.integers(1, 12), seed=st.integers(0, 1000))
def test_every_round_runs_every_arm_once(arms, rounds, seed):
    found = mirrored(range(arms), rounds, seed)
    assert len(found) == rounds
    assert all(sorted(order) == list(range(arms)) for order in found)
    assert all(later == earlier[::-1] for earlier, later in itertools.pairwise(found))


def test_abba_goes_on_as_baab():
    found = abba("A", "B", 12, seed=0)
    first, second = found[0]
    signs = ["+" if order == (first, second) else "-" for order in found]
    assert "".join(signs) == "+--+-++--++-"


def test_the_seed_decides_who_starts():
    starts = {abba("A", "B", 1, seed)[0] for seed in range(20)}
    assert starts == {("A", "B"), ("B", "A")}
    assert abba("A", "B", 6, seed=3) == abba("A", "B", 6, seed=3)


def position_sums(orders, arm, power):
    """Return the sum of time^power over the windows of `arm`."""
    flat = [name for order in orders for name in order]
    return sum(np.float64(index) ** power for index, name in enumerate(flat) if name == arm)


def test_four_rounds_cancel_linear_and_quadratic_drift():
    found = abba("A", "B", 4, seed=1)
    for power in (1, 2):
        assert position_sums(found, "A", power) == position_sums(found, "B", power)


def test_two_mirrored_rounds_cancel_linear_drift():
    found = mirrored(["B", "F1", "F2", "F3"], 4, seed=1)
    assert len({position_sums(found, arm, 1) for arm in ("B", "F1", "F2", "F3")}) == 1
