from __future__ import annotations

import time
from contextlib import contextmanager

import pytest

from autotune.doctor.compare import compare


class Steps:
    """Steps that take as long as they are told, by a clock of their own."""

    def __init__(self, seconds=0.1):
        self.now, self.seconds, self.order = 0.0, seconds, []

    def __call__(self, count):
        self.order.append(self.seconds)
        self.now += count * self.seconds
        return count * self.seconds

    @contextmanager
    def taking(self, seconds):
        before, self.seconds = self.seconds, seconds
        yield
        self.seconds = before


@pytest.mark.parametrize(("fixed", "saved"), [(0.05, 0.5), (0.1, 0.0), (0.2, -1.0)])
def test_a_change_is_measured_in_turn_and_undone(fixed, saved):
    steps = Steps()
    found = compare(steps, lambda: steps.taking(fixed), clock=lambda: steps.now)
    assert found.saved == pytest.approx(saved)
    assert found.clear is (saved > 0)
    assert steps.seconds == 0.1
    assert steps.order[2:10] == [0.1, 0.1, fixed, fixed, fixed, fixed, 0.1, 0.1]


def test_time_that_is_short_ends_it():
    steps = Steps(seconds=10.0)
    found = compare(steps, lambda: steps.taking(5.0), seconds=1.0, clock=lambda: steps.now)
    assert found.pairs == 2


def test_a_real_gain_is_seen():
    seconds = 0.02

    def step(count):
        began = time.perf_counter()
        for _ in range(count):
            time.sleep(seconds)
        return time.perf_counter() - began

    @contextmanager
    def quicker():
        nonlocal seconds
        seconds = 0.005
        yield
        seconds = 0.02

    found = compare(step, quicker, seconds=2.0, clock=time.perf_counter)
    assert found.saved > 1 / 3
