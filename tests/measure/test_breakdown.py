"""Compute on cached batches, memory after the window, the restart of an epoch."""

from __future__ import annotations

import gc
import sys
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import WeightedRandomSampler

from autotune.batches import nbytes
from autotune.measure import breakdown, protocol, warmup
from autotune.measure.breakdown import cached_compute, epoch_overhead, memory_peaks
from autotune.measure.memory import HostMemory
from autotune.measure.protocol import Wanted, measure
from tests.measure.measuring import FakeClock, Numbers, make_workload, open_session

STEP_S = 0.02


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def test_c80_a_step_that_changes_its_batch_in_place_gets_a_fresh_one_each_time(clock):
    seen = []

    def step(batch: Any) -> None:
        clock.sleep(STEP_S)
        seen.append(batch[0].max().item())
        batch[0].mul_(2)

    session = open_session(make_workload(step, length=4096), clock=clock)
    assert cached_compute(session) == pytest.approx(STEP_S)
    assert len(seen) >= 8
    assert max(seen) <= 6.0


@pytest.mark.parametrize(("step_s", "steps"), [(2.0, 4), (0.2, 8), (0.01, 32)])
def test_long_steps_are_timed_no_oftener_than_it_takes(clock, step_s, steps):
    seen = []

    def step(batch: Any) -> None:
        clock.sleep(step_s)
        seen.append(step_s)

    assert cached_compute(open_session(make_workload(step, length=4096), clock=clock)) == pytest.approx(step_s)
    assert len(seen) == steps


@pytest.mark.parametrize(
    ("batches_fit", "ahead", "kept"), [(0.5, 0, 1), (0.5, 1, 2), (1, 0, 1), (3.9, 0, 3), (9, 0, 4), (9, 1, 4)]
)
def test_few_of_large_batches_are_kept(clock, monkeypatch, batches_fit, ahead, kept):
    session = open_session(make_workload(lambda batch: clock.sleep(STEP_S), length=4096), clock=clock)
    session.ahead = ahead
    monkeypatch.setattr(breakdown, "CACHED_BYTES", int(batches_fit * nbytes(session.stream.next().host)))
    assert cached_compute(session) == pytest.approx(STEP_S)
    assert session.stream.position == 1 + kept


def test_what_the_cached_pass_keeps_is_in_no_peak(clock, monkeypatch):
    beside = 300 << 20

    def hold(session: Any) -> float:
        torch.ones(beside, dtype=torch.uint8)
        return STEP_S

    monkeypatch.setattr(protocol, "cached_compute", hold)
    session = open_session(make_workload(lambda batch: clock.sleep(STEP_S), length=4096), clock=clock)
    found, _ = measure(session, Wanted())
    assert found.compute_s == STEP_S
    assert found.steady.host < session.host_memory.steady_peak() - 0.9 * beside


def test_compute_is_timed_with_the_loader_left_out(clock):
    workload = make_workload(
        lambda batch: clock.sleep(STEP_S), dataset=lambda: Numbers(4096, lambda index: clock.sleep(0.01))
    )
    assert cached_compute(open_session(workload, clock=clock)) == pytest.approx(STEP_S)


def test_the_loader_gets_the_time_to_fill_its_queue(clock, monkeypatch):
    slept = []
    monkeypatch.setattr(breakdown.time, "sleep", slept.append)
    session = open_session(make_workload(length=4096), clock=clock)
    session.workers, session.queue, session.loader_s = 2, 8, 0.05
    cached_compute(session)
    assert slept == [pytest.approx(0.1 + 8 * 0.05)]
    session.loader_s = 100.0
    cached_compute(session)
    assert slept[1] == 5.0


@pytest.mark.parametrize(
    ("before", "after", "grows"),
    [
        ({1: 100, 2: 100}, {1: 105, 2: 110}, False),
        ({1: 100, 2: 100}, {1: 105, 2: 120}, True),
        ({}, {1: 100, 2: 100}, False),  # at the end of an epoch there were none
        ({1: 100, 2: 100}, {3: 200, 4: 200}, False),  # those of another epoch
    ],
)
def test_c23_workers_that_grow_are_flagged(clock, monkeypatch, before, after, grows):
    session = open_session(make_workload(length=4096), clock=clock)
    monkeypatch.setattr(HostMemory, "tree_pss", 1000)
    monkeypatch.setattr(session.host_memory, "own_of_workers", lambda: after)
    memory_peaks(session, host_peak=0, own_before=before)
    assert ("host_memory_growing" in session.flags) == grows


def test_the_lifetime_peak_is_never_below_the_steady_one(clock):
    session = open_session(make_workload(length=4096), clock=clock)
    session.host_memory.reset_peak()
    steady, lifetime = memory_peaks(session, host_peak=1 << 40, own_before={})
    assert steady.host == lifetime.host == 1 << 40
    assert 0 < steady.tree_pss < 1 << 40


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_workers_of_short_epochs_hold_as_much_as_those_of_long_ones():
    """A collection writes into every object, and so unshares its page: workers begun after it held too little."""
    objects: list[list[int]] = [[] for _ in range(1_000_000)]
    peaks = []
    for batches in (4, 500):
        session = open_session(make_workload(length=8 * batches), num_workers=1)
        for _ in range(2):
            session.step(session.stream.next())
        gc.collect()  # as before the window
        for _ in range(6):
            session.step(session.stream.next())
        steady, _ = memory_peaks(session, host_peak=0, own_before={})
        peaks.append(steady.tree_pss)
        session.stream.close()
    assert abs(peaks[0] - peaks[1]) < sum(map(sys.getsizeof, objects)) / 2


# ---- restarts ----


def slow_workers(worker: int) -> None:
    import time

    time.sleep(0.4)


def restart(**config: Any) -> tuple[float, bool]:
    """Return the measured overhead of an epoch whose workers take 0.4 s to start."""
    session = open_session(make_workload(length=8 * 50), **config)
    loader = session.training.tuned.loader
    session.training.tuned.loader = lambda data, **given: loader(data, worker_init_fn=slow_workers, **given)
    session.stream = session.open_stream(session.training.make_loader(), 400)
    session.stream.next()
    session.stream.close()
    return epoch_overhead(session, step_s=0.001, wait_s=0.0)


def test_c29_workers_that_start_anew_cost_every_epoch_and_persistent_ones_do_not():
    anew, estimated = restart(num_workers=1)
    assert anew > 0.3
    assert not estimated
    kept, estimated = restart(num_workers=1, persistent_workers=True)
    assert kept < 0.2
    assert not estimated


def test_a_restart_that_is_nothing_beside_the_epoch_is_estimated_from_the_first(clock):
    session = open_session(make_workload(lambda batch: clock.sleep(1.0), length=8 * 1000), clock=clock)
    session.stream.first_batch_s = 1.5
    assert epoch_overhead(session, step_s=1.0, wait_s=0.25) == (1.25, True)


def test_the_median_of_the_restarts_seen_is_taken(clock):
    session = open_session(make_workload(length=80), clock=clock)
    session.stream.boundaries = [9.0, 2.0, 3.0]
    assert epoch_overhead(session, step_s=1.0, wait_s=0.0) == (3.0, False)


@pytest.mark.parametrize(("workers", "overhead_s"), [(0, 2.5), (1, 2.5), (4, 1.0), (8, 0.0)])
def test_the_wait_at_a_restart_replaces_that_of_a_step_for_each_worker(clock, workers, overhead_s):
    session = open_session(make_workload(length=80), clock=clock)
    session.workers = workers
    session.stream.boundaries = [3.0]
    assert epoch_overhead(session, step_s=1.0, wait_s=0.5) == (overhead_s, False)


def test_tokens_a_sample_are_seen_where_batches_hold_token_numbers(clock):
    def collate(items: list[Any]) -> torch.Tensor:
        return torch.zeros(len(items), 12, dtype=torch.long)

    class Tokens(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(3, 4)

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            clock.sleep(STEP_S)
            return self.table(tokens).mean()

    session = open_session(
        make_workload(model=Tokens, collate_fn=collate, training_step=lambda model, batch: model(batch), length=4096),
        clock=clock,
    )
    found, _ = measure(session, Wanted())
    assert found.tokens_per_sample == 12.0


# ---- loaders over a part of the data ----


class Keyed(Numbers):
    """Samples that are asked for by name."""

    def __getitem__(self, key: Any) -> tuple[torch.Tensor, int]:
        return super().__getitem__(int(key.removeprefix("id")))


def test_a_sampler_of_the_users_own_is_never_replaced_by_indices(clock):
    names = [f"id{number}" for number in range(20)]
    session = open_session(make_workload(dataset=lambda: Keyed(20), sampler=lambda data: names), clock=clock)
    session.dataset_length = 20
    session.stream.first_batch_s = 1.0
    assert breakdown.small_batch_peak(session, 2) is None
    warmup._step_on_partial_batch(session)
    assert epoch_overhead(session, step_s=0.001, wait_s=0.0) == (1.0, True)


def test_a_sampler_of_torch_yields_indices(clock):
    weighted = lambda data: WeightedRandomSampler([1.0] * len(data), len(data))  # noqa: E731
    session = open_session(make_workload(length=20, sampler=weighted), clock=clock)
    assert breakdown.small_batch_peak(session, 2) is not None


@pytest.mark.parametrize(("factor", "state"), [(1.0, 2), (40.0, 2), (1e30, 0)])
def test_the_small_peak_is_of_a_step_beside_the_optimizers_state(factor, state):
    """fp16 skips updates until its scale fits, if ever one does."""

    def step(model: nn.Module, batch: Any) -> torch.Tensor:
        return model(batch[0]).square().mean().half() * factor  # the gradient of half is scaled by 65536 at first

    session = open_session(
        make_workload(length=20, training_step=step, optimizer=torch.optim.Adam),
        precision="fp16",
    )
    found = breakdown.small_batch_peak(session, 2)
    assert (found is not None) == bool(state)
    assert len(session.training.optimizers[0].state) == state


def test_a_loader_over_a_part_keeps_the_dataset_itself():
    training = open_session(make_workload(length=20)).training
    loader = training.make_loader(samples=3, batch_size=2).host
    assert loader.dataset is training.dataset
    assert [len(labels) for _, labels in loader] == [2, 1]
