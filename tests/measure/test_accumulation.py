"""Trials that accumulate gradients: whole updates in each block, updates counted as they happen."""

from __future__ import annotations

import math

import torch

from autotune.measure.breakdown import cached_compute
from autotune.measure.validity import UpdateCounter
from autotune.measure.warmup import MIN_EFFECTIVE_UPDATES, warm_up
from autotune.measure.window import plan_blocks
from tests.measure.measuring import Flow, QuickDevice, make_workload, open_session, remember


def quick():
    return QuickDevice(torch.device("cpu"))


def test_blocks_hold_whole_updates_of_every_worker():
    session = open_session(make_workload(length=8000), accumulation=3)
    session.workers = 4
    remember(session, step_s=0.004)
    plan = plan_blocks(session)
    assert plan.steps % math.lcm(4, 3) == 0
    assert plan.steps * 0.004 >= session.device.min_block_s
    slow = open_session(make_workload(length=8000), accumulation=3, budget_s=0.1)
    remember(slow, step_s=60.0)
    assert plan_blocks(slow).steps == 3


def test_a6_warm_up_goes_on_until_updates_were_made():
    session = open_session(make_workload(length=800), device=quick(), accumulation=4)
    updates, names = warm_up(session, None)
    assert updates >= MIN_EFFECTIVE_UPDATES
    assert names == ("bias", "weight")


def test_an_epochs_end_makes_the_update_of_what_is_left_over():
    """Ten batches of an epoch in groups of four: 4, 4 and 2; of a stream, whose end nobody knew, too."""
    for workload in (make_workload(length=80), make_workload(dataset=lambda: Flow(80))):
        session = open_session(workload, device=quick(), accumulation=4)
        counter = UpdateCounter(session.training)
        for _ in range(21):
            session.step(session.stream.next())
        assert counter.effective == 6


def test_cached_compute_times_whole_updates():
    session = open_session(make_workload(length=800), device=quick(), accumulation=3)
    counter = UpdateCounter(session.training)
    assert cached_compute(session) > 0
    assert counter.effective >= 2
    assert counter.updates % 4 == 0
