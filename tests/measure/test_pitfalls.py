"""Pitfalls of the method that only real loader workers and real time show."""

from __future__ import annotations

import itertools
import statistics
import time
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

from autotune.measure import window
from autotune.measure.protocol import Wanted, measure
from autotune.measure.window import plan_blocks
from tests.measure.measuring import Numbers, QuickDevice, make_workload, open_session

# Python 3.12 warns of every fork beside threads, and torch has threads
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning"),
]


def sleeping(load_s: float, compute_s: float, length: int = 4096, **changes: Any) -> Any:
    """Return a workload that sleeps for each sample and each step; batches of one sample."""
    return make_workload(
        lambda batch: time.sleep(compute_s),
        dataset=lambda: Numbers(length, lambda index: time.sleep(load_s)),
        **changes,
    )


@pytest.mark.parametrize("drained", [True, False])
def test_c7_batches_that_lie_ready_do_not_hide_the_loader(monkeypatch, drained):
    """Pitfall 1: truth is 80 ms a step; what was prefetched in an idle moment makes it look like 20 ms."""
    drain = window.drain_and_settle

    def after_a_pause(session: Any, plan: Any) -> None:
        time.sleep(2.4)
        if drained:
            drain(session, plan)

    monkeypatch.setattr(window, "drain_and_settle", after_a_pause)
    session = open_session(
        sleeping(0.16, 0.02),
        device=QuickDevice(torch.device("cpu")),
        batch_size=1,
        num_workers=2,
        prefetch_factor=12,
    )
    found, _ = measure(session, Wanted(target=0.5))
    if drained:
        assert found.step_s > 0.064
        assert found.loader_s == pytest.approx(0.08, rel=0.3)
    else:
        assert found.step_s < 0.06
        assert found.loader_s is None


def test_bursts_of_a_loader_are_inside_a_block():
    """Pitfall 2: four workers deliver four batches at once; the median step sees no wait, the block does."""
    ends = []

    def step(batch: Any) -> None:
        time.sleep(0.02)
        ends.append(time.perf_counter())

    workload = make_workload(step, dataset=lambda: Numbers(4096, lambda index: time.sleep(0.4)))
    session = open_session(workload, device=QuickDevice(torch.device("cpu")), batch_size=1, num_workers=4)
    found, _ = measure(session, Wanted(target=0.5))
    count = sum(block.steps for block in found.blocks)
    assert all(block.steps % 4 == 0 for block in found.blocks)
    assert found.step_s > 0.08  # truth: 100 ms
    gaps = [after - before for before, after in itertools.pairwise(ends)]
    assert statistics.median(gaps[-count - 20 : -20]) < 0.06
    assert plan_blocks(session).steps % 4 == 0


def slow_start(worker: int) -> None:
    time.sleep(0.3)


def test_c29_an_epoch_shorter_than_the_window_is_measured_whole():
    """Pitfall 9: six batches an epoch; workers that start anew cost 0.3 s each time."""
    found = {}
    for persistent in (False, True):

        def load(batch_size: int, **options: Any) -> Any:
            return DataLoader(Numbers(48), batch_size, worker_init_fn=slow_start, **options)

        session = open_session(
            make_workload(lambda batch: time.sleep(0.01), loader=load, dataset=None),
            device=QuickDevice(torch.device("cpu")),
            num_workers=2,
            persistent_workers=persistent,
        )
        found[persistent], _ = measure(session, Wanted(target=0.5))
        assert "short_epoch" in found[persistent].flags
        assert {block.steps % 6 for block in found[persistent].blocks} == {0}
        assert found[persistent].samples_per_epoch == 48
    assert found[False].sample_s > 1.5 * found[True].sample_s


def test_prefetch_that_cannot_be_drained_is_flagged():
    """An epoch of fewer batches than lie ready."""
    session = open_session(
        sleeping(0.0, 0.06, length=12),
        device=QuickDevice(torch.device("cpu")),
        batch_size=1,
        num_workers=2,
        prefetch_factor=8,
    )
    found, _ = measure(session, Wanted(target=0.5))
    assert "prefetch_bias" in found.flags
    assert found.loader_s is None


@pytest.mark.parametrize(
    ("load_s", "compute_s", "workers"),
    [
        (0.05, 0.06, 2),
        pytest.param(0.2, 0.06, 4, marks=pytest.mark.slow),
        pytest.param(0.2, 0.02, 4, marks=pytest.mark.slow),
    ],
)
def test_an_epoch_costs_what_a_plain_loop_over_epochs_pays(load_s, compute_s, workers):
    """Bound by compute, balanced, bound by the loader: each misses 2 to 4 % without the share of the restart."""
    session = open_session(
        sleeping(load_s, compute_s, length=40),
        device=QuickDevice(torch.device("cpu")),
        batch_size=1,
        num_workers=workers,
        persistent_workers=True,
    )
    found, _ = measure(session, Wanted(target=0.5))
    loader = DataLoader(
        Numbers(40, lambda index: time.sleep(load_s)), batch_size=1, num_workers=workers, persistent_workers=True
    )
    for _epoch in range(2):
        began = time.perf_counter()
        for _ in loader:
            time.sleep(compute_s)
        plain_s = time.perf_counter() - began
    assert found.sample_s * 40 == pytest.approx(plain_s, rel=0.25)
