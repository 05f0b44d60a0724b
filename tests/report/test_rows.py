"""Who is ranked, where, and on which figures."""

from __future__ import annotations

import dataclasses
import math

import pytest

from autotune.config import Config
from autotune.records import Compilation, Limits, Outcome, Peaks
from autotune.report.rows import data_share, differs_from, rows_of, screening_noise
from tests.report.factory import GIB, LIMITS, failed, make_measurement, ok

BASELINE = Config(batch_size=64)


def rows(records, **changes):
    return rows_of(records, **{"baseline": BASELINE, "accelerator": False, **changes})


def ranks(found):
    return {row.trial: row.rank for row in found}


def test_rank_is_by_time_per_sample_among_those_that_fit(mixed):
    found = rows(mixed)
    assert ranks(found) == {3: 1, 2: 2, 0: 3, 7: 4, 4: None, 5: None, 6: None}
    assert [row.trial for row in found] == [3, 2, 0, 7, 4, 5, 6]


def test_a_config_over_the_limit_has_no_rank_however_quick():
    within, over = rows([ok(0), ok(1, {"batch_size": 128}, sample_s=1e-5, host=9 * GIB)])
    assert (over.rank, over.fits, over.reason) == (None, False, "over the memory limit")
    assert (within.rank, within.fits) == (1, True)


def test_limits_given_go_before_those_of_the_record():
    tight = Limits(host_bytes=GIB // 2)
    assert rows([ok(0)], limits=tight)[0].rank is None
    assert rows([ok(0, limits=None)])[0].rank == 1


def test_on_an_accelerator_its_own_memory_decides():
    peaks = Peaks(host=7 * GIB, reserved=2 * GIB, outside_torch=GIB)
    limits = dataclasses.replace(LIMITS, device_bytes=4 * GIB)
    (row,) = rows([ok(0, lifetime=peaks, limits=limits)], accelerator=True)
    assert (row.peak_bytes, row.limit_bytes, row.fits) == (3 * GIB, 4 * GIB, True)


def test_replicates_are_merged_by_the_mean_of_logarithms():
    (row,) = rows([ok(0, sample_s=0.001), ok(1, kind="replicate", sample_s=0.004), ok(2, sample_s=0.002)])
    assert row.sample_s == pytest.approx(0.002)
    assert (row.runs, row.trials) == (3, (0, 1, 2))
    assert row.uncertainty == pytest.approx(math.log(4) / 2)  # the runs say more than any one of them


def test_unmerged_runs_have_the_rank_of_their_config(mixed):
    found = rows(mixed, merge=False)
    assert ranks(found) == {3: 1, 2: 2, 0: 3, 1: 3, 7: 4, 4: None, 5: None, 6: None}


def test_probe_and_verification_are_no_trials(mixed):
    assert 8 not in {number for row in rows(mixed) for number in row.trials}


def test_a_config_that_failed_once_has_no_rank():
    found = rows([ok(0), failed(1, reason="killed by signal 11", outcome=Outcome.CRASHED), ok(2, {"num_workers": 2})])
    assert ranks(found) == {2: 1, 0: None, 1: None}
    assert next(row for row in found if row.trial == 0).reason == "trial 1 failed: killed by signal 11"


def test_a_repeat_stands_in_for_the_disturbed_run_before_it():
    """As in the search itself, which chose the best by it: table and best.toml must agree."""
    hard = ("cpu_contended_hard",)
    disturbed, repeated = ok(0, sample_s=0.004, flags=hard), ok(1, sample_s=0.002, kind="repeat", flags=hard)
    (row,) = rows([disturbed, repeated])
    assert row.sample_s == pytest.approx(0.002)
    stray = failed(2, reason="killed by signal 9", outcome=Outcome.CRASHED, config={"num_workers": 2})
    stray = dataclasses.replace(stray, kind="repeat")
    found = rows([ok(0, sample_s=0.004), ok(1, {"num_workers": 2}, flags=hard), stray])
    assert ranks(found) == {1: 1, 0: 2}
    short = dataclasses.replace(stray, outcome=Outcome.OUT_OF_MEMORY)
    assert ranks(rows([ok(0, sample_s=0.004), ok(1, {"num_workers": 2}, flags=hard), short])) == {0: 1, 2: None}


def test_what_has_no_effect_does_not_differ():
    baseline = Config(batch_size=64, num_workers=2, prefetch_factor=4)
    assert differs_from(Config(batch_size=64, num_workers=0), baseline) == {"num_workers": 0}
    assert differs_from(baseline, baseline) == {}


def test_waiting_is_the_wait_unless_the_step_is_input_bound():
    step_s = 0.064
    assert data_share(make_measurement(wait_s=0.1 * step_s, compute_s=0.95 * step_s)) == (pytest.approx(0.1), False)
    assert data_share(make_measurement(wait_s=0.1 * step_s, compute_s=0.6 * step_s)) == (pytest.approx(0.4), True)
    noisy = make_measurement(wait_s=0.1 * step_s, compute_s=0.6 * step_s, uncertainty=0.5)
    assert data_share(noisy) == (pytest.approx(0.1), False)
    assert data_share(make_measurement(compute_s=None))[1] is False


def test_tokens_are_counted_where_they_are_known():
    assert rows([ok(0, sample_s=0.01, tokens_per_sample=512.0)])[0].tokens_per_s == pytest.approx(51_200)
    assert rows([ok(0)])[0].tokens_per_s is None


def test_what_compiling_takes_is_that_of_the_run_without_a_cache():
    config = {"compile_mode": "default"}
    first = ok(0, config, compilation=Compilation(seconds=31.4, graphs=2))
    again = ok(1, config, compilation=Compilation(seconds=2.5, graphs=4, recompilations=2, cached=True))
    compiled, eager = sorted(rows([first, again, ok(2)]), key=lambda row: row.trial)
    assert (compiled.compile_s, compiled.recompilations) == (31.4, 2)
    assert (eager.compile_s, eager.recompilations) == (None, None)


def test_noise_is_at_least_what_repeats_show():
    quiet = [ok(0), ok(1, {"num_workers": 2})]
    assert screening_noise(rows(quiet)) == pytest.approx(math.sqrt(2) * 0.02)
    repeated = [*quiet, ok(2, sample_s=0.002)]
    assert screening_noise(rows(repeated)) == pytest.approx(math.log(2) / 2 * math.sqrt(2))
    assert screening_noise([]) is None


def test_an_infinite_uncertainty_is_no_noise():
    assert screening_noise(rows([ok(0, uncertainty=math.inf)])) is None
