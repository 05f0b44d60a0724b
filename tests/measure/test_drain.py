"""Emptying the prefetch queue before the window: how long that may take, and what it says of the loader."""

from __future__ import annotations

import pytest

from autotune.measure.session import Session
from autotune.measure.window import BlockPlan, drain_and_settle
from tests.measure.measuring import FakeClock, Numbers, make_workload, open_session, remember
from tests.measure.test_window import SlowStart

WORKERS, QUEUE = 8, 32
PULLS = QUEUE + 2 * WORKERS
LOAD_S = 0.1
PLAN = BlockPlan(WORKERS, 0, 120.0)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def part_way(clock: FakeClock, epoch: int, taken: int, step_s: float) -> Session:
    """Return a session that has taken some batches of its epoch, and goes on as if with many workers."""
    workload = make_workload(
        lambda batch: clock.sleep(step_s),
        dataset=lambda: Numbers(8 * epoch, lambda index: clock.sleep(LOAD_S / 8)),
        sampler=lambda data: SlowStart(len(data), clock, 5.0),
    )
    session = open_session(workload, clock=clock)
    session.workers, session.queue = WORKERS, QUEUE
    for _ in range(taken):
        session.stream.next()
    remember(session, step_s)
    return session


@pytest.mark.parametrize("taken", [10, 40])
def test_slow_steps_are_not_run_to_the_end_of_the_epoch_for_a_drain(clock, taken):
    session = part_way(clock, epoch=80, taken=taken, step_s=3.0)
    began = clock.now
    drain_and_settle(session, PLAN)
    assert clock.now - began < 20.0
    assert session.flags == []
    assert session.loader_s == pytest.approx(LOAD_S)


def test_quick_steps_are_run_to_the_next_epoch_where_the_drain_fits_into_no_rest(clock):
    session = part_way(clock, epoch=100, taken=60, step_s=0.02)
    drain_and_settle(session, PLAN)
    assert len(session.stream.boundaries) == 1
    assert session.stream.position == 1 + PULLS + session.queue
    assert session.loader_s == pytest.approx(LOAD_S)


@pytest.mark.parametrize(("epoch", "biased"), [(PULLS + QUEUE - 1, True), (PULLS + QUEUE, False)])
def test_an_epoch_that_drain_and_settling_do_not_fit_into_is_flagged(clock, epoch, biased):
    session = part_way(clock, epoch=epoch, taken=1, step_s=0.02)
    drain_and_settle(session, PLAN)
    assert ("prefetch_bias" in session.flags) == biased
    assert (not session.stream.boundaries) == biased
