from __future__ import annotations

import time
from contextlib import nullcontext
from dataclasses import replace

import pytest
from torch import device

from autotune.doctor.ceilings import loader_rates, matmul_rate, measure_step, verdict
from autotune.doctor.findings import Basis, Ceilings, Gain
from autotune.measure.warmup import warm_up
from tests.doctor.looking import Clean, context_of, work
from tests.measure.measuring import Numbers, QuickDevice, make_workload, open_session

BASE = Ceilings(step_s=0.1, uncertainty=0.01, samples_per_step=10, wait_s=0.0, compute_s=0.1, loader_s=0.02, workers=2)


def test_a_step_that_waits_is_bound_by_its_input():
    """Reading a batch takes 320 ms, computing 20 ms."""
    workload = make_workload(lambda batch: time.sleep(0.02), dataset=lambda: Numbers(96, lambda i: time.sleep(0.04)))
    session = open_session(workload, device=QuickDevice(device("cpu")))
    warm_up(session, None)
    ceilings, cached = measure_step(session)
    assert ceilings.wait_s > 1.5 * ceilings.compute_s > 0
    assert verdict(ceilings) == "input"
    assert ceilings.free_loading_samples_per_s > 1.5 * ceilings.samples_per_s
    assert ceilings.free_compute_samples_per_s < 1.5 * ceilings.samples_per_s
    assert len(cached) == 4


def test_the_loader_alone_is_faster_with_more_workers_where_it_only_waits():
    workload = make_workload(dataset=lambda: Numbers(4000, lambda index: time.sleep(0.004)))
    session = open_session(workload, num_workers=2)
    rates = {rate.workers: rate.samples_per_s for rate in loader_rates(session)}
    assert {0, 1, 2} <= set(rates)
    assert rates[2] > 1.3 * rates[0]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "compute"),
        ({"compute_s": 0.05}, "input"),
        ({"compute_s": 0.05, "workers": 0}, "compute"),  # of nothing that waits
        ({"compute_s": 0.05, "wait_s": 0.05, "workers": 0}, "input"),
        ({"compute_s": 0.088, "uncertainty": 0.08}, "input"),  # beyond the half-width, which is two standard errors
        ({"compute_s": 0.088, "uncertainty": 0.13}, "compute"),
        ({"launch_s": 0.08}, "launches"),
        ({"transfer_s": 0.07}, "transfer"),
        ({"transfer_s": 0.01, "device_busy_s": 0.02}, "launches"),
        ({"transfer_s": 0.01, "device_busy_s": 0.09, "launch_s": 0.08}, "compute"),
    ],
)
def test_the_verdict(changes, expected):
    assert verdict(replace(BASE, **changes)) == expected


def test_the_machines_rate_bounds_the_step():
    rate = matmul_rate(QuickDevice(device("cpu")), "fp32")
    assert rate > 1e8
    full = replace(BASE, flops_per_sample=rate * 0.1 / 10, matmul_flops=rate)
    assert full.machine_share == pytest.approx(1.0)
    assert BASE.machine_share is None


def test_compute_saved_behind_a_slower_loader_gains_nothing():
    context = context_of(work(Clean), num_workers=2)
    context.ceilings = replace(BASE, loader_s=0.1)
    assert context.share_of_step(0.05) == 0.0
    context.ceilings = replace(BASE, loader_s=0.08)
    assert context.share_of_step(0.05) == pytest.approx(0.2)
    context.session.workers = 0
    assert context.share_of_step(0.05) == pytest.approx(0.5)


def test_loading_saved_gains_what_was_waited_at_most():
    context = context_of(work(Clean), num_workers=2)
    context.ceilings = replace(BASE, compute_s=0.07, wait_s=0.03)
    assert context.share_of_loading(0.02) == pytest.approx(0.1)
    assert context.share_of_loading(1.0) == pytest.approx(0.3)


def test_a_gain_is_measured_where_it_can_be_and_a_bound_elsewhere():
    context = context_of(work(Clean), saved=0.2)
    compute_s = context.ceilings.compute_s
    measured = context.gain(0.5 * compute_s, nullcontext)
    assert (measured.basis, measured.share) == (Basis.MEASURED, pytest.approx(0.2))
    bound = context.gain(0.5 * compute_s)
    assert (bound.basis, bound.share) == (Basis.BOUND, pytest.approx(0.5))
    context.half_width = 0.15  # too wide to say 20 %, and wide enough of zero to say that there is a gain
    assert context.gain(0.1 * compute_s, nullcontext).basis is Basis.BOUND
    assert context.gain(0.0, nullcontext).basis is Basis.MEASURED
    context.half_width = 0.5
    assert context.gain(0.0, nullcontext).basis is Basis.NONE
    assert Gain(share=0.5).speedup == pytest.approx(2.0)
