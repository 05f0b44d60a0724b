"""The statistics of a window: against simulated truth, and each way in which a window can end."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Sequence

import numpy as np
import pytest

from autotune.measure import blocks as module
from autotune.measure.blocks import Decision, StopRule, estimate, steady
from autotune.records import Block

SAMPLE_S = 0.0025  # true time per sample of every synthetic series
BLOCK_S = 0.25


def make_blocks(log_ratios: Sequence[float], block_s: float = BLOCK_S) -> list[Block]:
    """Return blocks of 100 samples whose wall time is `block_s` times exp(log ratio)."""
    samples = round(block_s / SAMPLE_S)
    return [Block(steps=10, samples=samples, wall_s=block_s * math.exp(ratio), wait_s=0.0) for ratio in log_ratios]


def autoregressive(rng: np.random.Generator, count: int, sd: float, rho: float) -> np.ndarray:
    """Return a stationary AR(1) series of standard deviation `sd`."""
    shocks = rng.normal(0, 1, count)
    for index in range(1, count):
        shocks[index] = rho * shocks[index - 1] + math.sqrt(1 - rho**2) * shocks[index]
    return sd * shocks


def run(rule: StopRule, blocks: Sequence[Block]) -> tuple[Decision | None, int]:
    """Feed the rule block by block; return its decision and how many blocks it took."""
    for count in range(1, len(blocks) + 1):
        decision = rule.decide(blocks[:count])
        if decision is not None:
            return decision, count
    return None, len(blocks)


def late_change(rng: np.random.Generator) -> np.ndarray:
    """60 % of 24 blocks at speed 1, the rest at 1.25, with 3 % noise: a machine that throttles."""
    return np.where(np.arange(24) < 0.6 * 24, 0.0, math.log(1.25)) + rng.normal(0, 0.03, 24)


# ---- the estimate ----


@pytest.mark.parametrize(("rho", "naive", "corrected"), [(0.0, 0.95, 0.965), (0.3, 0.85, 0.92), (0.6, 0.68, 0.87)])
def test_half_width_covers_the_truth_as_simulated(rho, naive, corrected):
    rng = np.random.default_rng(7)
    hits = np.zeros(2)
    for _ in range(1500):
        y = autoregressive(rng, 16, 0.05, rho)
        widths = module.half_width(y, 0.0), module.half_width(y, module.autocorrelation(y))
        hits += [abs(y.mean()) <= width for width in widths]
    assert hits / 1500 == pytest.approx([naive, corrected], abs=0.03)


@pytest.mark.parametrize(
    ("name", "levels", "plain_bias", "bias"),
    [
        ("decay", np.log1p(1.5 * np.exp(-np.arange(24) / 2)), 0.15, 0.008),
        ("queue full of batches until block 10", np.where(np.arange(24) < 10, math.log(0.7), 0), -0.12, 0.0),
    ],
)
def test_truncation_removes_the_bias_of_warm_up(name, levels, plain_bias, bias):
    rng = np.random.default_rng(3)
    series = [levels + rng.normal(0, 0.03, 24) for _ in range(300)]
    plain = np.mean([np.exp(y).mean() for y in series]) - 1
    truncated = np.mean([estimate(make_blocks(y)).sample_s for y in series]) / SAMPLE_S - 1
    assert plain == pytest.approx(plain_bias, abs=0.02)
    assert truncated == pytest.approx(bias, abs=0.01)


def test_warm_up_steps_are_not_counted():
    """Pitfall 3: four blocks of 200 ms, then 20 ms."""
    found = estimate(make_blocks([math.log(10)] * 4 + [0.0, 0.01, -0.01, 0.0] * 4))
    assert found.kept_from == 4
    assert found.sample_s == pytest.approx(SAMPLE_S, rel=0.01)


def test_blocks_see_the_stall_that_the_median_step_hides():
    """Pitfall 2: four workers deliver in bursts, so that three steps of four are quick."""
    steps_s = np.tile([0.040, 0.020, 0.020, 0.020], 24)  # the truth is 25 ms a step
    walls = steps_s.reshape(-1, 8).sum(axis=1)  # blocks of two bursts
    found = estimate([Block(steps=8, samples=8, wall_s=float(wall), wait_s=0.0) for wall in walls])
    assert float(np.median(steps_s)) == pytest.approx(0.020)
    assert found.sample_s == pytest.approx(0.025)


def test_rare_long_blocks_are_called_bursty():
    series = [math.log(3) if index % 10 == 9 else 0.0 for index in range(40)]
    found = estimate(make_blocks(series))
    assert found.bursty
    assert found.mean_sample_s == pytest.approx(1.2 * SAMPLE_S)
    assert found.p95_sample_s == pytest.approx(3 * SAMPLE_S)
    assert not estimate(make_blocks([0.0] * 40)).bursty


def test_blocks_of_different_size_are_compared_by_the_sample():
    sizes = [100, 50] * 6
    blocks = [Block(steps=1, samples=size, wall_s=size * SAMPLE_S, wait_s=0.0) for size in sizes]
    assert estimate(blocks).sample_s == pytest.approx(SAMPLE_S)


def test_one_block_says_nothing_of_its_own_uncertainty():
    found = estimate(make_blocks([0.0]))
    assert (found.sample_s, found.uncertainty) == (pytest.approx(SAMPLE_S), math.inf)


# ---- steadiness ----


def test_a_late_change_is_flagged_and_a_flat_series_is_not():
    """Pitfall 4."""
    rng = np.random.default_rng(4)
    caught = sum(not steady(make_blocks(late_change(rng))) for _ in range(200))
    flat = sum(not steady(make_blocks(rng.normal(0, 0.03, 24))) for _ in range(200))
    assert caught >= 0.85 * 200
    assert flat <= 0.02 * 200


def test_a_decay_that_truncation_removes_is_steady():
    assert steady(make_blocks([*np.exp(-np.arange(12.0)), *[0.0] * 20]))


def test_too_few_blocks_are_never_called_unsteady():
    assert steady(make_blocks(np.linspace(0, 0.5, 19)))
    assert not steady(make_blocks(np.linspace(0, 0.5, 20)))


# ---- the stop rule ----


def test_stops_when_precise():
    decision, count = run(StopRule(), make_blocks([0.01, -0.01] * 20))
    assert decision == Decision(kind="precise")
    assert count == 8


def test_a_precise_window_still_lasts_its_minimum():
    decision, count = run(StopRule(min_s=1.5), make_blocks([0.01, -0.01] * 40, block_s=0.05))
    assert decision == Decision(kind="precise")
    assert count == 30


def test_stops_early_when_clearly_slower():
    rule = StopRule(best_sample_s=SAMPLE_S)
    decision, count = run(rule, make_blocks([math.log(1.5) + ripple for ripple in [0.01, -0.01] * 20]))
    assert decision == Decision(kind="slower")
    assert count == 5


def test_the_epoch_overhead_counts_against_a_config():
    blocks = make_blocks([0.01, -0.01] * 20)
    decision, _ = run(StopRule(best_sample_s=SAMPLE_S, start_share_s=0.2 * SAMPLE_S), blocks)
    assert decision == Decision(kind="slower")


def test_stops_when_more_blocks_do_not_help():
    rng = np.random.default_rng(5)
    rule = StopRule(budget_s=1000.0)
    decision, count = run(rule, make_blocks(rng.normal(0, 0.3, 200)))
    assert decision is not None
    assert decision.kind == "noise"
    assert decision.unmet.startswith("half-width")
    assert 20 <= count <= 60


def test_stops_at_the_budget_and_names_what_is_missing():
    decision, count = run(StopRule(budget_s=3.0), make_blocks([0.1, -0.1] * 20))
    assert decision is not None
    assert (decision.kind, count) == ("budget", 12)
    assert decision.unmet.endswith("wider than 3.0%")


@pytest.mark.parametrize("count", [1, 3, 7])
def test_slow_blocks_end_at_the_budget(count):
    decision, taken = run(StopRule(budget_s=float(count)), make_blocks([0.0] * 10, block_s=1.0))
    assert taken == count
    assert decision == Decision(kind="budget", unmet=f"{count} blocks after warm-up, fewer than 8")


def test_a_fixed_plan_ignores_everything_else():
    blocks = make_blocks([math.log(5), 0.0] * 30)
    rule = StopRule(fixed_blocks=8, best_sample_s=SAMPLE_S / 10, min_s=0.0, budget_s=0.5)
    assert run(rule, blocks) == (Decision(kind="fixed"), 8)
    short = make_blocks([0.0] * 60, block_s=0.05)
    assert run(StopRule(fixed_blocks=8), short) == (Decision(kind="fixed"), 40)  # 2 s


def test_a_trend_extends_the_window_once_by_half_the_budget():
    rising = make_blocks(np.linspace(0, 1.0, 200))
    decision, count = run(StopRule(budget_s=6.0), rising)
    taken_s = sum(block.wall_s for block in rising[:count])
    assert decision == Decision(kind="budget", unmet="no steady state")
    assert 9.0 <= taken_s < 9.0 + 2 * BLOCK_S
    assert not steady(rising[:count])


def test_a_trend_that_ends_lets_the_window_end():
    series = [*np.linspace(-0.3, 0.0, 14), *[0.01, -0.01] * 50]
    decision, count = run(StopRule(budget_s=5.0), make_blocks(series))
    assert decision == Decision(kind="precise")
    assert 5.0 < sum(block.wall_s for block in make_blocks(series[:count])) < 7.5
    assert steady(make_blocks(series[:count]))


def test_evaluations_that_take_longer_than_the_window_end_it():
    blocks = make_blocks([0.0, 0.2] * 4)
    for rule in (StopRule(budget_s=5.0), StopRule(fixed_blocks=100)):
        assert rule.decide(blocks[:4], left_out_s=1000) is None  # too few to say anything
        assert rule.decide(blocks, left_out_s=2 * rule.budget_s - 1) is None
    found = StopRule(budget_s=5.0).decide(blocks, left_out_s=11)
    assert found == Decision(kind="budget", unmet="evaluations took 11 s beside 2.2 s of training steps")
    assert StopRule(fixed_blocks=100).decide(blocks, left_out_s=31).kind == "budget"
    assert StopRule(budget_s=5.0).decide(make_blocks([0.0] * 8), left_out_s=11) == Decision(kind="precise")


def test_no_block_no_decision():
    assert StopRule().decide([]) is None


@pytest.mark.parametrize(("true_ratio", "pruned"), [(1.0, 0.0), (1.05, 0.0), (1.10, 0.08), (1.20, 0.84), (1.5, 1.0)])
def test_one_look_prunes_as_simulated(true_ratio, pruned):
    rng = np.random.default_rng(11)
    hits = 0
    for _ in range(600):
        y = math.log(true_ratio) + autoregressive(rng, 8, 0.05, 0.15)
        kept = y[module.warmup_end(y) :]
        width = module.half_width(kept, module.autocorrelation(kept))
        hits += kept.mean() - width > math.log(module.SLOWER_MARGIN)
    assert hits / 600 == pytest.approx(pruned, abs=0.05)


@pytest.mark.parametrize(("true_ratio", "low", "high"), [(1.0, 0.0, 0.01), (1.05, 0.0, 0.03), (1.5, 0.99, 1.0)])
def test_looks_after_every_block_do_not_prune_equals(true_ratio, low, high):
    rng = np.random.default_rng(12)
    series = [math.log(true_ratio) + autoregressive(rng, 80, 0.05, 0.3) for _ in range(200)]
    found = [run(StopRule(best_sample_s=SAMPLE_S), make_blocks(y))[0] for y in series]
    rate = sum(decision is not None and decision.kind == "slower" for decision in found) / 200
    assert low <= rate <= high


@pytest.mark.parametrize(
    ("sd", "rho", "blocks", "coverage"),
    [(0.03, 0.0, 9.7, 0.94), (0.05, 0.3, 16, 0.80), (0.10, 0.3, 25, 0.87)],
)
def test_the_whole_rule_takes_and_covers_as_simulated(sd, rho, blocks, coverage):
    rng = np.random.default_rng(13)
    counts, hits = [], 0
    for _ in range(250):
        series = make_blocks(autoregressive(rng, 90, sd, rho))
        _, count = run(StopRule(), series)
        found = estimate(series[:count])
        counts.append(count)
        hits += abs(math.log(found.sample_s / SAMPLE_S)) <= found.uncertainty
    assert np.mean(counts) == pytest.approx(blocks, rel=0.15)
    assert hits / 250 == pytest.approx(coverage, abs=0.06)


def test_the_module_brings_neither_scipy_stats_nor_torch():
    code = "import sys; import autotune.measure.blocks; print('scipy.stats' in sys.modules, 'torch' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["False", "False"]
