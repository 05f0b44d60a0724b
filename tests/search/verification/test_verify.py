"""Choose, then claim: on a synthetic machine, without a process."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter

import numpy as np
import pytest
from scipy import stats

from autotune.config import Config
from autotune.search.aim import Aim
from autotune.search.verification import QUICK, THOROUGH, Verdict, verify, within_noise
from autotune.search.verification.choice import choose
from autotune.search.verification.claim import claim
from autotune.search.verification.windows import Bench
from tests.search.verification.synthetic_machine import WINDOW_S, SyntheticMachine, linear, wandering, white

BASELINE = Config(batch_size=32)
FAST = Config(batch_size=32, precision="bf16")
FASTER = Config(batch_size=64, precision="bf16")
WORKERS = Config(batch_size=32, num_workers=2)
TIMES = {BASELINE: 1.0, FAST: 0.8, FASTER: 0.7, WORKERS: 0.9}


def machine(sd: float = 0.01, seed: int = 0, **others) -> SyntheticMachine:
    return SyntheticMachine(lambda config: TIMES[config], white(seed, sd), **others)


def run(found: SyntheticMachine, finalists=(FAST, WORKERS, FASTER), **others):
    return verify(found.measure, BASELINE, finalists, clock=found.clock, **others)


# ---- the two answers ----


def test_finds_the_best_and_the_best_that_keeps_the_batch():
    result = run(machine())
    assert result.best is not None
    assert result.same_batch is not None
    assert result.best.candidate == dict(FASTER)
    assert result.same_batch.candidate == dict(FAST)
    assert result.best.verdict is result.same_batch.verdict is Verdict.FASTER
    assert result.best.alpha == result.same_batch.alpha == 0.025
    assert result.best.comparison.lower < 1 / 0.7 < result.best.comparison.upper
    assert result.best.figures.baseline_sample_s == pytest.approx(1.0, rel=0.03)
    assert result.best.figures.candidate_sample_s == pytest.approx(0.7, rel=0.03)
    assert result.best.figures.baseline_step_s == pytest.approx(32.0, rel=0.03)
    assert result.best.figures.candidate_step_s == pytest.approx(32 * 0.7, rel=0.03)


def test_one_answer_where_the_best_keeps_the_batch():
    result = run(machine(), finalists=[WORKERS, FAST])
    assert result.best is not None
    assert (result.best.candidate, result.best.alpha) == (dict(FAST), 0.05)
    assert result.same_batch is None


def test_a_config_no_faster_than_the_baseline_gives_way_to_one_that_is():
    """Else the first answer would be the baseline, beside a second one that is proven to be faster."""

    def noise(index: int) -> float:
        return -0.4 if found.configs[index] == FASTER and index < 12 else 0.001 * (index % 3)

    times = {BASELINE: 1.0, FAST: 0.9, FASTER: 1.0}
    found = SyntheticMachine(times.__getitem__, noise)
    result = run(found, finalists=(FASTER, FAST))
    assert (result.best.candidate, result.best.verdict) == (dict(FAST), Verdict.FASTER)
    assert result.same_batch is None
    assert (result.passed_over.candidate, result.passed_over.verdict) == (dict(FASTER), Verdict.SAME)
    assert list(result.claims()) == [result.best]


def test_the_caller_says_what_keeps_the_batch():
    result = run(machine(), keeps_batch=lambda config: True)
    assert result.best.candidate == dict(FASTER)
    assert result.same_batch is None


def test_where_memory_is_to_be_small_the_smallest_that_is_fast_enough_is_claimed():
    sizes = {BASELINE: 50, FAST: 30, WORKERS: 10, FASTER: 40}
    result = run(machine(peaks=lambda config: sizes[config]), aim=Aim(keep=0.85))
    assert result.best.candidate == dict(FAST)  # WORKERS is smaller, and has 0.7 / 0.9 of FASTER's throughput
    assert result.best.peaks == (50, 30)
    assert result.same_batch is None


def test_where_memory_is_to_be_small_the_baseline_may_be_the_fastest():
    times = {BASELINE: 1.0, FAST: 1.03, WORKERS: 1.07}
    sizes = {BASELINE: 50, FAST: 30, WORKERS: 10}
    found = SyntheticMachine(times.__getitem__, white(0, 0.002), peaks=sizes.__getitem__)
    result = run(found, finalists=(WORKERS, FAST), aim=Aim(keep=0.95))
    assert result.best.candidate == dict(FAST)  # WORKERS keeps 0.95 of FAST's throughput, not of the baseline's
    alone = run(
        SyntheticMachine(times.__getitem__, white(0, 0.002), peaks=sizes.__getitem__), (WORKERS,), aim=Aim(0.95)
    )
    assert alone.best.candidate == dict(WORKERS)


def test_the_choice_rests_on_four_rounds_and_the_claim_on_fresh_ones():
    found = machine()
    result = run(found, finalists=[FAST, WORKERS])
    chosen = [window for window in result.choice.windows]
    assert Counter(window.arm for window in chosen) == {"baseline": 4, "finalist 1": 4, "finalist 2": 4}
    trials = [window.trial for window in (*chosen, *result.best.windows)]
    assert trials == list(range(len(found.configs)))
    assert found.labels[0].startswith("choose 1/4: ")
    assert found.labels[-1].startswith("claim 6/12: ")


def test_one_finalist_needs_no_choice():
    result = run(machine(), finalists=[FAST, FAST, BASELINE])
    assert result.choice.windows == ()
    assert result.best.verdict is Verdict.FASTER


def test_without_finalists_there_is_no_answer():
    result = run(machine(), finalists=[BASELINE])
    assert (result.best, result.same_batch) == (None, None)


def test_quick_takes_one_look():
    result = run(machine(), finalists=[FAST], design=QUICK)
    assert [(look.pairs, look.alpha) for look in result.best.looks] == [(6, 0.05)]


def test_seeds_and_order_are_kept():
    first, second = run(machine(), seed=5), run(machine(), seed=5)
    assert first == second
    assert first.choice.seed == 5
    orders = {tuple(window.arm for window in run(machine(), seed=seed).best.windows) for seed in range(8)}
    assert len(orders) == 2


def test_equals_within_noise_are_named_smallest_memory_first():
    sizes = {BASELINE: 5, FAST: 30, WORKERS: 10, FASTER: 20}
    same = SyntheticMachine(lambda config: 1.0, white(1, 0.05), peaks=lambda config: sizes[config])
    choice = choose(Bench(same.measure, clock=same.clock), BASELINE, [FAST, WORKERS, FASTER], THOROUGH, 0)
    assert [ranked.peak_bytes for ranked in within_noise(choice)] == sorted(
        ranked.peak_bytes for ranked in choice.ranking[1:]
    )


# ---- looks and verdicts ----


def test_noise_takes_all_three_looks():
    found = SyntheticMachine(lambda config: 1.0, white(2, 0.10))
    result = claim(Bench(found.measure, clock=found.clock), BASELINE, FAST, THOROUGH, alpha=0.05, seed=0)
    assert [(look.pairs, look.alpha) for look in result.looks] == [(6, 0.0221), (9, 0.0221), (12, 0.0221)]
    assert (result.verdict, result.reason) == (Verdict.INCONCLUSIVE, "noise")
    assert result.comparison.rounds_needed > 12


def test_a_slower_candidate_is_called_slower():
    found = SyntheticMachine(lambda config: 1.2 if config == FAST else 1.0, white(3, 0.01))
    assert run(found, finalists=[FAST]).best.verdict is Verdict.SLOWER


def test_the_least_speedup_is_asked_of_the_lower_bound():
    found = run(machine(sd=0.05), finalists=[FAST]).best
    estimate, lower = found.comparison.speedup, found.comparison.lower
    assert found.reaches(lower)
    assert not found.reaches((estimate + lower) / 2)
    assert not run(machine(flags=lambda index: ("gpu_shared",)), finalists=[FAST]).best.reaches(1.0)


def test_the_looks_go_on_while_the_least_speedup_lies_within_the_interval():
    """1.25x is soon told from 1, and not from 1.2."""

    def claimed(least: float | None):
        found = SyntheticMachine(lambda config: 0.8 if config == FAST else 1.0, white(4, 0.03))
        bench = Bench(found.measure, clock=found.clock)
        return claim(bench, BASELINE, FAST, THOROUGH, alpha=0.05, seed=0, least=least)

    early, late = claimed(None), claimed(1.2)
    assert (len(early.looks), early.reaches(1.2)) == (1, False)
    assert late.looks[0] == early.looks[0]
    assert len(late.looks) > 1
    assert late.reaches(1.2)
    assert {look.alpha for look in late.looks} == {0.0221}
    for settled in (1.1, 1.6):  # beside the interval: the first look has answered
        assert len(claimed(settled).looks) == 1


def test_a_least_speedup_below_one_is_reached_by_what_is_as_fast():
    found = SyntheticMachine(lambda config: 1.0, white(2, 0.002))
    same = claim(Bench(found.measure, clock=found.clock), BASELINE, FAST, QUICK, alpha=0.05, seed=0, least=0.95)
    assert same.verdict is Verdict.SAME
    assert same.reaches(0.95)
    assert not same.reaches(1.0 + same.comparison.noise)
    noisy = dataclasses.replace(same, verdict=Verdict.INCONCLUSIVE, reason="noise")
    assert noisy.reaches(0.95)
    assert not dataclasses.replace(noisy, reason="environment: throttled").reaches(0.95)


def test_the_self_test_compares_the_baseline_with_itself():
    result = run(machine(sd=0.005), finalists=[FAST], self_test=True)
    assert result.self_test.verdict is Verdict.SAME
    assert {window.stage for window in result.self_test.windows} == {"aa"}


# ---- time ----


def test_a_late_deadline_ends_between_looks_with_what_there_is():
    found = machine(sd=0.3)
    result = run(found, finalists=[FAST], deadline_s=2 * 8 * WINDOW_S)
    assert found.now_s <= 2 * 8 * WINDOW_S
    assert [(look.pairs, look.alpha) for look in result.best.looks] == [(6, 0.0221), (8, 0.0221)]


def test_an_early_deadline_takes_one_look_at_full_alpha():
    result = run(machine(), finalists=[FAST], deadline_s=2 * 5 * WINDOW_S)
    assert [(look.pairs, look.alpha) for look in result.best.looks] == [(5, 0.05)]
    assert result.best.verdict is Verdict.FASTER


@pytest.mark.parametrize("rounds", [0, 1, 3])
def test_hardly_any_time_claims_nothing(rounds):
    result = run(machine(), finalists=[FAST], deadline_s=(2 * rounds + 0.5) * WINDOW_S)
    assert result.best.verdict is Verdict.INCONCLUSIVE
    assert result.best.reason in ("no time for two rounds", "only 3 rounds")


def test_the_choice_leaves_time_for_the_claims():
    found = machine()
    result = run(found, deadline_s=50 * WINDOW_S)
    assert len(result.choice.windows) == 16
    assert result.best.verdict is result.same_batch.verdict is Verdict.FASTER
    short = run(machine(), deadline_s=30 * WINDOW_S)
    assert len(short.choice.windows) == 12  # whole rounds within 40 % of the time
    assert short.best.looks


def test_in_too_short_a_time_for_two_answers_the_best_gets_all_of_it():
    result = run(machine(), finalists=[FAST, FASTER], deadline_s=12 * WINDOW_S)
    assert result.best.candidate == dict(FASTER)
    assert result.best.verdict is Verdict.FASTER
    assert result.same_batch.reason == "no time for two rounds"


def test_without_time_to_choose_the_search_decides():
    result = run(machine(), deadline_s=8 * WINDOW_S, window_s=WINDOW_S)
    assert result.choice.windows == ()
    assert [ranked.config for ranked in result.choice.ranking] == [dict(found) for found in (FAST, WORKERS, FASTER)]


# ---- failures and disturbances ----


def test_a_finalist_that_fails_gives_its_place_to_the_next():
    result = run(machine(failures={FASTER: "cuda out of memory"}))
    assert [(item.config, item.stage, item.reason) for item in result.dropped] == [
        (dict(FASTER), "choose", "cuda out of memory")
    ]
    assert (result.best.candidate, result.best.alpha) == (dict(FAST), 0.05)


def test_a_finalist_that_fails_only_in_the_claim_is_replaced_there():
    found = machine()
    measure = found.measure

    def failing_later(config, label):
        found.failures = {FASTER: "killed by signal 9"} if label.startswith("claim") else {}
        return measure(config, label)

    result = verify(failing_later, BASELINE, [FASTER, FAST, WORKERS], clock=found.clock)
    assert [(item.config, item.stage) for item in result.dropped] == [(dict(FASTER), "claim")]
    assert result.best.candidate == dict(FAST)
    assert result.best.verdict is Verdict.FASTER
    assert result.same_batch is None


def test_all_finalists_fail():
    result = run(machine(failures={config: "crash" for config in (FAST, FASTER, WORKERS)}))
    assert (result.best, len(result.dropped)) == (None, 3)


def test_a_baseline_that_fails_leaves_nothing_to_claim():
    result = run(machine(failures={BASELINE: "timeout"}), finalists=[FAST])
    assert result.best.verdict is Verdict.INCONCLUSIVE
    assert result.best.reason == "the baseline failed: timeout"
    assert run(machine(failures={BASELINE: "timeout"})).dropped == ()


@pytest.mark.parametrize(("period", "verdict"), [(3, Verdict.INCONCLUSIVE), (5, Verdict.FASTER)])
def test_disturbed_windows_forbid_a_verdict(period, verdict):
    # the first two of each period are disturbed, a window and its repeat: 1 of 2 windows, or 1 of 4
    found = machine(flags=lambda index: ("cpu_contended_hard", "bursty") if index % period < 2 else ("bursty",))
    result = run(found, finalists=[FAST]).best
    assert result.verdict is verdict
    if verdict is Verdict.INCONCLUSIVE:
        assert result.reason == "environment: 12 of 24 windows disturbed (cpu_contended_hard)"


# ---- how often it is wrong ----


@pytest.mark.parametrize(
    ("clocks", "verdict"),
    [((1980, 1980), "faster"), ((1900, 1980), "faster"), ((990, 1980), "inconclusive"), ((0, 0), "faster")],
)
def test_where_the_cards_clock_moved_the_verdict_must_hold_in_clock_cycles_too(clocks, verdict):
    found = machine()

    def measure(config, label):
        record = found.measure(config, label)
        clock = clocks[0] if config == BASELINE else clocks[1]
        return dataclasses.replace(record, measurement=dataclasses.replace(record.measurement, sm_clock_mhz=clock))

    claimed = claim(Bench(measure, clock=found.clock), BASELINE, FASTER, QUICK, alpha=0.05, seed=0)
    assert claimed.verdict == verdict
    assert ("clock" in claimed.reason) == (verdict == "inconclusive")


def test_the_best_of_thirty_equal_configs_is_rarely_called_faster():
    """Pitfall 13, the winner's curse: the naive figure is wrong nearly always."""
    configs = [Config(batch_size=size) for size in range(8, 8 * 31, 8)]
    baseline = Config(batch_size=7)
    naive = faster = 0
    for seed in range(200):
        found = SyntheticMachine(noise=white(seed, 0.05))
        screened = {config: found.measure(config, "").measurement.sample_s for config in configs}
        reference = np.median([found.measure(baseline, "").measurement.sample_s for _ in range(2)])
        finalists = sorted(screened, key=screened.get)[:5]
        naive += reference / screened[finalists[0]] > 1.05
        result = verify(found.measure, baseline, finalists, clock=found.clock, seed=seed)
        faster += any(item.verdict is Verdict.FASTER for item in result.claims())
    assert naive >= 0.70 * 200
    assert faster <= 0.05 * 200


def sequential_claims(times_a, times_b) -> bool:
    """What AAAABBBB with a t interval would claim."""
    difference = np.log(times_a) - np.log(times_b)
    return stats.ttest_1samp(difference, 0.0).pvalue < 0.05


@pytest.mark.parametrize("drift", ["slowing by 1 % a window", "random walk"])
def test_drift_between_the_arms_is_not_taken_for_a_difference(drift):
    """Pitfall 14."""
    claims = naive = 0
    for seed in range(500):
        noise = linear(seed, 0.02, 0.01) if drift.startswith("slowing") else wandering(seed, 0.02, 0.01)
        found = SyntheticMachine(noise=noise)
        result = claim(Bench(found.measure, clock=found.clock), BASELINE, FAST, THOROUGH, alpha=0.05, seed=seed)
        claims += result.verdict in (Verdict.FASTER, Verdict.SLOWER)
        times = [math.exp(noise(index)) for index in range(16)]
        naive += sequential_claims(times[:8], times[8:])
    assert claims <= 0.07 * 500
    assert naive > 0.25 * 500


def test_two_answers_of_equal_configs_are_wrong_in_five_percent_together():
    """A/A for the whole: three looks, two answers."""
    wrong = 0
    for seed in range(400):
        found = SyntheticMachine(noise=white(seed, 0.03))
        result = run(found, finalists=[FASTER, FAST], seed=seed)
        wrong += any(item.verdict in (Verdict.FASTER, Verdict.SLOWER) for item in result.claims())
    assert wrong <= 0.065 * 400


def test_a_real_gain_is_found():
    found = 0
    for seed in range(100):
        result = run(machine(sd=0.05, seed=seed), finalists=[FAST], seed=seed)
        found += result.best.verdict is Verdict.FASTER
    assert found >= 98
