"""Epochs that differ in length, or whose length is not what the loader says: the window ends, restarts counted."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from autotune.measure.protocol import Wanted, measure
from autotune.measure.session import Session
from autotune.measure.window import measure_window, plan_blocks
from tests.measure.measuring import FakeClock, make_workload, open_session, remember
from tests.measure.test_stream import Epochs
from tests.measure.test_window import STEP_S, After

RESTART_S = 1.0
MOST_EPOCHS = 300


class Varying:
    """A loader of epochs of these lengths in turn, as of a sampler that skips at random."""

    def __init__(self, lengths: list[int], clock: FakeClock) -> None:
        self.lengths, self.clock, self.epochs = itertools.cycle(lengths), clock, 0

    def __iter__(self) -> Iterator[Any]:
        self.epochs += 1
        assert self.epochs < MOST_EPOCHS, "the window does not end"
        self.clock.sleep(RESTART_S)
        for _ in range(next(self.lengths)):
            yield torch.zeros(8, 4), torch.zeros(8, dtype=torch.long)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def session_over(loader: Any, clock: FakeClock) -> Session:
    workload = make_workload(lambda batch: clock.sleep(STEP_S), loader=lambda size, **options: loader, dataset=None)
    return open_session(workload, clock=clock, budget_s=30.0)


@pytest.mark.parametrize("lengths", [[9, 11, 10, 8, 12], [1, 3, 2], [30, 40, 35, 37]])
def test_epochs_of_varying_length_are_measured_with_their_restarts(clock, lengths):
    found, _ = measure(session_over(Varying(lengths, clock), clock), Wanted())
    truth = (sum(lengths) * STEP_S + len(lengths) * RESTART_S) / (8 * sum(lengths))
    assert 0.8 * truth < found.sample_s < 1.25 * truth


@pytest.mark.parametrize("lengths", [[5, 200], [200, 5, 5, 5], [100, 100, 3], [10, 1000]])
def test_a_window_over_epochs_of_every_length_ends(clock, lengths):
    found, _ = measure(session_over(Varying(lengths, clock), clock), Wanted())
    assert sum(block.wall_s for block in found.blocks) >= 30.0 or not found.unmet


def test_a_block_of_a_whole_epoch_has_its_one_restart_however_long_it_is(clock):
    session = session_over(Varying([9, 11, 10], clock), clock)
    remember(session, STEP_S)
    blocks, _ = measure_window(session, plan_blocks(session), After(20.0))
    assert {block.steps for block in blocks} == {9, 10, 11}
    for block in blocks:
        assert block.samples == 8 * block.steps
        assert block.wall_s == pytest.approx(block.steps * STEP_S + RESTART_S)


def test_merged_blocks_of_whole_epochs_go_on_as_two_epochs_each(clock):
    session = session_over(Varying([9, 11, 10], clock), clock)
    remember(session, STEP_S)
    blocks, _ = measure_window(session, plan_blocks(session), After(180.0))
    assert max(block.steps for block in blocks) > 11
    for block in blocks:
        assert block.wall_s == pytest.approx(block.steps * STEP_S + 2 * RESTART_S)


def test_a_loader_that_says_a_length_and_never_ends_has_blocks_of_steps(clock):
    found, _ = measure(session_over(Epochs(10**9, 10), clock), Wanted())
    assert "short_epoch" not in found.flags
    assert found.step_s == pytest.approx(STEP_S)
