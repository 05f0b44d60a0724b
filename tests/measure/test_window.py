"""The window on a fake clock: how blocks are cut, where restarts go, which flags rise."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest
import torch
from torch.utils.data import Sampler

from autotune.measure.blocks import Decision, StopRule
from autotune.measure.protocol import Wanted, measure
from autotune.measure.window import BlockPlan, measure_window, plan_blocks
from tests.measure.measuring import FakeClock, Flow, Numbers, make_workload, open_session, remember
from tests.measure.test_stream import Epochs

STEP_S = 0.02


class SlowStart(Sampler[int]):
    """Whole epochs in order; each takes a while to begin."""

    def __init__(self, length: int, clock: FakeClock, start_s: float) -> None:
        self.length, self.clock, self.start_s = length, clock, start_s

    def __iter__(self) -> Any:
        self.clock.sleep(self.start_s)
        return iter(range(self.length))

    def __len__(self) -> int:
        return self.length


class After:
    """Stops when so many seconds are measured, whatever they say."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def decide(self, blocks: list[Any], left_out_s: float = 0.0) -> Decision | None:
        return Decision(kind="fixed") if sum(block.wall_s for block in blocks) >= self.seconds else None


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def steps_of(clock: FakeClock, step_s: float = STEP_S) -> Any:
    return lambda batch: clock.sleep(step_s)


def flags_after(session: Any, seconds: float) -> list[str]:
    measure_window(session, plan_blocks(session), After(seconds))
    return session.flags


# ---- the plan ----


@pytest.mark.parametrize(
    ("workers", "step_s", "steps"),
    [(0, 0.02, 3), (0, 0.2, 1), (4, 0.02, 4), (4, 0.005, 12), (3, 0.01, 6), (1, 0.05, 1)],
)
def test_a_block_holds_whole_bursts_and_is_long_enough_for_the_clock(workers, step_s, steps):
    session = open_session(make_workload(length=4096), budget_s=15.0)
    session.workers = workers
    remember(session, step_s)
    plan = plan_blocks(session)
    assert plan == BlockPlan(steps, 0, 15.0)
    assert plan.steps % max(workers, 1) == 0


def test_slow_steps_get_a_larger_budget():
    session = open_session(make_workload(length=4096), budget_s=2.0)
    remember(session, 0.5)
    assert plan_blocks(session) == BlockPlan(1, 0, 6.0)


@pytest.mark.parametrize(("wait_s", "steps", "flags"), [(0.0, 1, []), (5.0, 4, ["few_blocks"])])
def test_steps_too_slow_for_any_budget(wait_s, steps, flags):
    session = open_session(make_workload(length=4096))
    session.workers = 4
    remember(session, 10.0, wait_s)
    assert plan_blocks(session) == BlockPlan(steps, 0, 120.0)
    assert session.flags == flags


def test_an_epoch_of_few_blocks_is_measured_whole():
    session = open_session(make_workload(length=80))
    remember(session, STEP_S)
    assert plan_blocks(session) == BlockPlan(10, 1, 2.0)
    assert session.flags == ["short_epoch"]


def test_an_epoch_of_some_blocks_is_measured_whole_where_the_budget_allows_a_dozen():
    session = open_session(make_workload(length=8 * 25), budget_s=12 * 25 * STEP_S + 0.1)
    remember(session, STEP_S)
    assert plan_blocks(session).whole_epochs
    session = open_session(make_workload(length=8 * 25), budget_s=12 * 25 * STEP_S - 0.1)
    remember(session, STEP_S)
    assert not plan_blocks(session).whole_epochs


# ---- epochs ----


def test_restarts_go_to_the_epoch_and_never_into_a_block(clock):
    workload = make_workload(steps_of(clock), length=160, sampler=lambda data: SlowStart(len(data), clock, 1.0))
    found, _ = measure(open_session(workload, clock=clock), Wanted())
    assert {round(block.wall_s, 6) for block in found.blocks} == {3 * STEP_S}
    assert found.step_s == pytest.approx(STEP_S)
    assert (found.epoch_overhead_s, found.epoch_overhead_estimated) == (pytest.approx(1.0), False)
    assert found.sample_s == pytest.approx(STEP_S / 8 + 1.0 / 160)


def test_a_short_epoch_is_measured_with_its_restart(clock):
    workload = make_workload(steps_of(clock), length=80, sampler=lambda data: SlowStart(len(data), clock, 1.0))
    found, _ = measure(open_session(workload, clock=clock, budget_s=30.0), Wanted())
    assert "short_epoch" in found.flags
    assert {block.steps for block in found.blocks} == {10}
    assert found.epoch_overhead_s == 0.0
    assert found.sample_s == pytest.approx((10 * STEP_S + 1.0) / 80)


def test_epochs_of_one_step(clock):
    workload = make_workload(steps_of(clock), length=8, sampler=lambda data: SlowStart(len(data), clock, 0.05))
    found, _ = measure(open_session(workload, clock=clock), Wanted())
    assert found.sample_s == pytest.approx((STEP_S + 0.05) / 8)
    assert found.steps_per_epoch == 1


def test_the_length_of_a_stream_is_learned_on_the_way(clock):
    session = open_session(make_workload(steps_of(clock), dataset=lambda: Flow(8 * 200)), clock=clock)
    remember(session, STEP_S)
    blocks, _ = measure_window(session, plan_blocks(session), After(6.0))
    assert session.stream.steps_per_epoch == 200
    assert "short_epoch" not in session.flags
    assert {block.steps for block in blocks} == {3}


def test_blocks_from_before_whole_epochs_are_dropped(clock):
    """They have no restart in them, and the blocks after them have."""
    session = open_session(
        make_workload(steps_of(clock), loader=lambda size, **options: Epochs(10, None, clock, 1.0), dataset=None),
        clock=clock,
    )
    remember(session, STEP_S)
    blocks, _ = measure_window(session, plan_blocks(session), After(8.0))
    assert {(block.steps, round(block.wall_s, 6)) for block in blocks} == {(10, 10 * STEP_S + 1.5)}


def test_an_endless_stream_has_no_epoch(clock):
    session = open_session(make_workload(steps_of(clock), dataset=lambda: Flow(None)), clock=clock)
    found, _ = measure(session, Wanted())
    assert found.step_s == pytest.approx(STEP_S)
    assert (found.steps_per_epoch, found.samples_per_epoch, found.epoch_overhead_estimated) == (None, None, True)
    assert found.sample_s == pytest.approx(STEP_S / 8)


@pytest.mark.parametrize("says", [10, 30, 5000])
def test_a_loader_that_is_wrong_about_its_length_is_measured_right(clock, says):
    workload = make_workload(
        steps_of(clock), loader=lambda size, **options: Epochs(200, says, clock, 1.0), dataset=None
    )
    found, _ = measure(open_session(workload, clock=clock, budget_s=20.0), Wanted(target=0.0001, fixed_blocks=120))
    assert found.step_s == pytest.approx(STEP_S)
    assert found.steps_per_epoch == 200
    assert found.epoch_overhead_s == pytest.approx(1.5)


def test_samples_of_a_ragged_epoch_are_counted_exactly(clock):
    workload = make_workload(steps_of(clock), length=77)  # ten steps, the last of five samples
    found, _ = measure(open_session(workload, clock=clock), Wanted())
    assert {block.samples for block in found.blocks} == {77}
    assert found.samples_per_epoch == 77
    assert found.samples_per_step == pytest.approx(7.7)
    assert found.sample_s == pytest.approx(10 * STEP_S / 77)


def test_a_last_batch_that_is_slow_the_first_time_is_met_before_the_window(clock):
    """Pitfall 10: a new shape makes cuDNN search and compilers compile."""
    seen: set[int] = set()

    def step(batch: Any) -> None:
        size = len(batch[1])
        clock.sleep(STEP_S if size in seen else 1.0)
        seen.add(size)

    workload = make_workload(step, length=8 * 300 + 5)
    found, _ = measure(open_session(workload, clock=clock), Wanted())
    assert seen == {8, 5}
    assert max(block.wall_s for block in found.blocks) == pytest.approx(3 * STEP_S)


# ---- blocks ----


def test_steps_that_get_faster_get_longer_blocks(clock):
    session = open_session(make_workload(steps_of(clock, 0.005), length=4096), clock=clock)
    remember(session, 0.05)
    blocks, _ = measure_window(session, plan_blocks(session), After(0.5))
    assert all(10 <= block.steps <= 11 for block in blocks)


def test_more_blocks_than_anyone_needs_are_merged(clock):
    steps = 0

    def step(batch: Any) -> None:
        nonlocal steps
        steps += 1
        clock.sleep(STEP_S)

    session = open_session(make_workload(step, dataset=lambda: Flow(None)), clock=clock)
    remember(session, STEP_S)
    blocks, _ = measure_window(session, plan_blocks(session), After(20.0))
    assert 64 <= len(blocks) <= 128
    assert {block.steps for block in blocks} == {6, 12} or {block.steps for block in blocks} == {12}
    for block in blocks:
        assert block.wall_s == pytest.approx(block.steps * STEP_S)
        assert block.samples == 8 * block.steps


def test_the_wait_for_batches_is_kept_apart(clock):
    workload = make_workload(steps_of(clock), dataset=lambda: Numbers(4096, lambda index: clock.sleep(0.001)))
    found, _ = measure(open_session(workload, clock=clock), Wanted())
    assert found.wait_s == pytest.approx(8 * 0.001)
    assert found.step_s == pytest.approx(STEP_S + 8 * 0.001)
    assert found.compute_s == pytest.approx(STEP_S)
    assert found.contention_s == pytest.approx(0.0, abs=1e-9)
    assert found.loader_s == pytest.approx(8 * 0.001)


# ---- flags ----


def test_scattered_blocks_are_flagged_noisy(clock):
    rng = random.Random(1)
    workload = make_workload(lambda batch: clock.sleep(STEP_S * rng.lognormvariate(0, 0.8)), length=4096)
    found, _ = measure(open_session(workload, clock=clock), Wanted(target=0.03))
    assert "noisy" in found.flags
    assert found.uncertainty > 0.03
    assert "half-width" in found.unmet


def test_a_few_very_slow_blocks_are_flagged_bursty(clock):
    steps = itertools.count()
    session = open_session(
        make_workload(lambda batch: clock.sleep(0.5 if next(steps) % 30 == 0 else STEP_S), length=4096), clock=clock
    )
    remember(session, STEP_S)
    assert "bursty" in flags_after(session, 5.0)


def test_a_late_change_of_speed_is_flagged(clock):
    """Pitfall 4, in the protocol; the rule itself is tested on synthetic series."""
    rng, began = random.Random(2), clock.now

    def step(batch: Any) -> None:
        clock.sleep(STEP_S * (1.0 if clock.now < began + 3.0 else 1.3) * rng.gauss(1, 0.02))

    session = open_session(make_workload(step, length=8192), clock=clock)
    remember(session, STEP_S)
    assert "no_steady_state" in flags_after(session, 5.0)


def test_a_steady_window_has_no_flag(clock):
    found, _ = measure(open_session(make_workload(steps_of(clock), length=4096), clock=clock), Wanted())
    ours = {"noisy", "bursty", "no_steady_state", "variable_shapes", "short_epoch", "few_blocks", "prefetch_bias"}
    assert not ours & set(found.flags)
    assert found.unmet == ""
    assert found.uncertainty == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("varies", [False, True])
def test_c11_a9_shapes_that_vary_are_flagged(clock, varies):
    lengths = itertools.cycle([3, 5, 4])

    def collate(items: list[Any]) -> Any:
        width = next(lengths) if varies else 4
        return torch.ones(len(items), width), torch.zeros(len(items), dtype=torch.long)

    def training_step(model: Any, batch: Any) -> torch.Tensor:
        clock.sleep(STEP_S)
        return model.weight.sum() * batch[0].mean()

    workload = make_workload(collate_fn=collate, training_step=training_step, length=4100)
    found, _ = measure(open_session(workload, clock=clock), Wanted())
    assert ("variable_shapes" in found.flags) == varies


def test_a_clearly_slower_run_stops_early_and_keeps_its_estimate(clock):
    session = open_session(make_workload(steps_of(clock), length=4096), clock=clock)
    found, _ = measure(session, Wanted(best_sample_s=STEP_S / 8 / 2))
    assert "pruned" in found.flags
    assert len(found.blocks) == 5
    assert found.sample_s == pytest.approx(STEP_S / 8)


def test_a_window_by_plan_measures_nothing_else(clock):
    session = open_session(make_workload(steps_of(clock), length=40960), clock=clock)
    found, _ = measure(session, Wanted(fixed_blocks=50, best_sample_s=1e-9))
    assert len(found.blocks) == 50
    assert found.compute_s is None
    assert found.contention_s is None


def test_the_rule_of_a_window_has_the_devices_shortest_time(clock):
    session = open_session(make_workload(steps_of(clock), length=4096), clock=clock)
    remember(session, STEP_S)
    blocks, _ = measure_window(session, plan_blocks(session), StopRule(min_s=1.0, target=0.5))
    assert 1.0 <= sum(block.wall_s for block in blocks) < 1.2
