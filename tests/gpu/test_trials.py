"""Trials on a real card: memory, failures and what comes after them, equal configs that measure alike."""

from __future__ import annotations

import time

import pytest

from autotune.records import Outcome
from autotune.search.verification.schedule import abba
from autotune.search.verification.statistics import compare

pytestmark = pytest.mark.gpu

MIB, GIB = 1 << 20, 1 << 30


GONE_S = 5.0  # for the driver to take back what an ended process held


def test_two_trials_in_a_row_leave_no_memory_behind(trial, card):
    before = card.free_bytes()
    for _ in range(2):
        assert trial().outcome is Outcome.OK
        end = time.monotonic() + GONE_S
        while before - card.free_bytes() > 64 * MIB and time.monotonic() < end:
            time.sleep(0.1)
        assert before - card.free_bytes() < 64 * MIB


def test_the_driver_counts_more_than_torch_reserves(trial, record_property):
    found = trial().measurement
    assert found is not None
    assert 0 < found.steady.allocated <= found.lifetime.allocated <= found.lifetime.reserved
    if not found.lifetime.process:
        pytest.skip("the driver tells nothing of processes here")
    record_property("outside_torch_mib", found.lifetime.outside_torch >> 20)
    assert found.lifetime.process >= found.lifetime.reserved
    assert found.lifetime.outside_torch < 4 * GIB


@pytest.mark.parametrize("fault", ["tensor too large", "many tensors", "no room beside torch"])
def test_memory_that_runs_out_is_told_and_the_next_trial_runs(trial, fault):
    failed = trial(fault, device_bytes=None if fault == "no room beside torch" else 4 * GIB)
    assert failed.outcome is Outcome.OUT_OF_MEMORY, failed.failure
    assert trial().outcome is Outcome.OK


def test_a_kernel_that_fails_is_told_and_the_next_trial_runs(trial):
    failed = trial("index out of range")
    assert failed.outcome in (Outcome.ERROR, Outcome.CRASHED), failed.failure
    assert failed.failure is not None
    assert failed.failure.message
    assert trial().outcome is Outcome.OK


def test_what_cudnn_tries_out_counts_in_the_lifetime_alone(trial, record_property):
    found = trial(cudnn_benchmark=True).measurement
    assert found is not None
    record_property("lifetime_over_steady", round(found.lifetime.reserved / found.steady.reserved, 2))
    assert found.lifetime.allocated >= found.steady.allocated
    assert found.lifetime.reserved >= found.steady.reserved


def test_expandable_segments_take_effect_in_a_trial(trial):
    record = trial(expandable_segments=True)
    assert record.outcome is Outcome.OK, record.failure  # a setting without effect would be unsupported


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_trials_in_16_bits_update_and_stay_finite(trial, precision):
    record = trial(precision=precision, pin_memory=True, num_workers=2)
    assert record.outcome is Outcome.OK, record.failure
    assert record.measurement is not None
    assert record.measurement.updates >= 3


@pytest.mark.timeout(170)
def test_equal_configs_measure_alike(trial, record_property):
    times: dict[str, list[float]] = {"one": [], "other": []}
    for order in abba("one", "other", 4, seed=0):
        for arm in order:
            record = trial(fixed_blocks=8)
            assert record.measurement is not None, record.failure
            times[arm].append(record.measurement.sample_s)
    found = compare(times["one"], times["other"])
    record_property("a_a", f"{found.speedup:.3f} ({found.lower:.3f} to {found.upper:.3f})")
    assert abs(found.speedup - 1) < 0.1
