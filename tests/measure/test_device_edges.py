"""Clock edges and peaks, on a device whose work runs behind the host's back."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from typing import Any

import pytest

from autotune.measure import protocol
from autotune.measure.blocks import StopRule
from autotune.measure.protocol import Wanted, measure
from autotune.measure.warmup import warm_up
from autotune.measure.window import measure_window, plan_blocks
from tests.measure.fake_device import FakeAsyncDevice
from tests.measure.measuring import make_workload, open_session

MIB = 1 << 20
WORK_S = 0.004


@pytest.fixture
def device() -> Iterator[FakeAsyncDevice]:
    device = FakeAsyncDevice()
    yield device
    device.close()


def test_one_synchronisation_at_each_edge_of_a_block_and_none_inside(device):
    session = open_session(make_workload(lambda batch: device.submit(WORK_S), length=4096), device=device)
    warm_up(session, None)
    plan = plan_blocks(session)
    device.events.clear()
    blocks, _ = measure_window(session, plan, StopRule(target=0.5, min_s=0.2, budget_s=1.0))
    runs = "".join("w" if event == "work" else "s" for event in device.events).split("s")
    assert {len(run) for run in runs} == {0, plan.steps}
    assert device.events.count("sync") == 2 * len(blocks)


def test_d1_c10_queued_work_is_timed_though_the_host_has_long_gone_on(device):
    host_s = []

    def step(batch: Any) -> None:
        at = time.perf_counter()
        device.submit(WORK_S)
        host_s.append(time.perf_counter() - at)

    session = open_session(make_workload(step, length=4096), device=device)
    found, _ = measure(session, Wanted(target=0.5))
    assert found.step_s >= 0.9 * WORK_S
    assert sorted(host_s)[len(host_s) // 2] < 0.5 * found.step_s


def test_a8_the_lifetime_peak_has_the_first_steps_workspace_and_the_steady_one_has_not(device):
    steps = 0

    def step(batch: Any) -> None:
        nonlocal steps
        steps += 1
        if steps == 2:
            device.allocate(50 * MIB)  # optimizer state stays
        workspace = (500 if steps == 1 else 100) * MIB
        device.free(device.allocate(workspace))
        device.submit(WORK_S)

    device.allocate(10 * MIB)
    found, _ = measure(open_session(make_workload(step, length=4096), device=device), Wanted(target=0.5))
    assert (found.steady.allocated, found.lifetime.allocated) == (160 * MIB, 510 * MIB)


def test_without_synchronisation_the_time_would_be_wrong_by_more_than_half(device, monkeypatch):
    """What the test above guards against: the host alone is no clock."""
    monkeypatch.setattr(device, "synchronize", lambda: None)
    work_s = 20 * WORK_S  # far more than the host needs for a step on a busy machine
    session = open_session(make_workload(lambda batch: device.submit(work_s), length=4096), device=device)
    found, _ = measure(session, Wanted(target=0.5))
    assert found.step_s < 0.5 * work_s


@pytest.mark.parametrize(("cap_mib", "pressed"), [(400, False), (250, True)])
def test_sizes_that_change_press_on_a_tight_cap_and_the_run_says_so(device, cap_mib, pressed):
    """A block does not serve every request: with two sizes that do not fit together the cache is emptied each time."""
    device.cap_memory(cap_mib * MIB)
    sizes = itertools.cycle((200, 90))

    def step(batch: Any) -> None:
        block = device.allocate(next(sizes) * MIB)
        device.submit(WORK_S)
        device.free(block)

    found, _ = measure(open_session(make_workload(step, length=4096), device=device), Wanted(target=0.5))
    assert ("memory_pressure" in found.flags) == pressed
    assert found.disturbed == pressed
    assert found.lifetime.reserved <= cap_mib * MIB


@pytest.mark.parametrize("in_window", [False, True])
def test_retries_of_the_allocator_count_in_the_window_alone(device, in_window, monkeypatch):
    steps, timed = 0, False
    window = protocol.measure_window

    def measure_window(*args: Any) -> Any:
        nonlocal timed
        timed = True
        return window(*args)

    def step(batch: Any) -> None:
        nonlocal steps
        steps += 1
        device.retry_count += timed == in_window
        device.submit(WORK_S)

    monkeypatch.setattr(protocol, "measure_window", measure_window)
    found, _ = measure(open_session(make_workload(step, length=4096), device=device), Wanted(target=0.5))
    assert ("memory_pressure" in found.flags) == in_window
