"""What is best: the least time, or the least memory of what is fast enough."""

from __future__ import annotations

import pytest

from autotune.search.aim import FASTEST, Aim

CONFIGS = {"fast": (1.0, 30), "near": (1.04, 20), "small": (1.2, 10)}


def ordered(aim: Aim) -> list[str]:
    return aim.order(CONFIGS, lambda name: CONFIGS[name][0], lambda name: CONFIGS[name][1])


def test_the_least_time_comes_first() -> None:
    assert ordered(FASTEST) == ["fast", "near", "small"]


@pytest.mark.parametrize(
    ("keep", "order"), [(0.95, ["near", "fast"]), (0.8, ["small", "near", "fast"]), (1.0, ["fast"])]
)
def test_the_least_memory_of_what_is_fast_enough(keep: float, order: list[str]) -> None:
    assert ordered(Aim(keep=keep)) == order


@pytest.mark.parametrize(("beside_s", "order"), [(1.0, ["near", "fast"]), (0.97, ["fast"]), (0.5, [])])
def test_what_lies_beside_the_items_may_be_the_fastest(beside_s: float, order: list[str]) -> None:
    found = Aim(keep=0.95).order(CONFIGS, lambda name: CONFIGS[name][0], lambda name: CONFIGS[name][1], beside_s)
    assert found == order


@pytest.mark.parametrize(
    ("speedup", "baseline_bytes", "config_bytes", "baseline"),
    [
        (0.97, 20, 10, False),  # a little slower in less memory
        (0.90, 20, 10, True),  # too slow
        (1.02, 10, 20, True),  # hardly faster in more memory
        (1.50, 10, 20, False),  # the baseline is too slow
        (1.00, 10, 10, True),
    ],
)
def test_the_smaller_of_two_unless_the_other_is_faster_than_may_be_given_up(
    speedup: float, baseline_bytes: int, config_bytes: int, baseline: bool
) -> None:
    assert Aim(keep=0.95).prefers_baseline(speedup, baseline_bytes, config_bytes) is baseline
