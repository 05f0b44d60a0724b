"""What is expected to follow the trials of a search."""

from __future__ import annotations

from autotune.config import Config
from autotune.search.forecast import NOTHING, STAGES, Afterwards, expected_checks, expected_windows, finalists

BASELINE = Config(batch_size=32, precision="fp32", num_workers=0)
SAME = BASELINE.replace(precision="bf16")
LARGER = BASELINE.replace(batch_size=64, precision="bf16", num_workers=2)
WORKERS = BASELINE.replace(num_workers=2)
RANKED = {LARGER: 0.5, SAME: 0.7, WORKERS: 0.9, BASELINE: 1.0}
FULL = Afterwards(how="full", two_answers=True)


def test_a_full_verification_of_two_answers():
    windows = expected_windows(FULL, BASELINE, RANKED)
    assert windows == {
        "choose": 4 * 4,  # rounds of three finalists and the baseline
        "claim": 2 * 2 * 6,  # both gains are clear: six rounds each
        "attribute": 6 * (1 + 3) + 6 * (1 + 1),
        "confirm": 3 * 6,  # of the answer with three options
    }


def test_a_small_gain_takes_every_look():
    windows = expected_windows(Afterwards(how="full"), BASELINE, {SAME: 0.97, BASELINE: 1.0})
    assert (windows["choose"], windows["claim"]) == (0, 2 * 12)


def test_quick_and_none():
    quick = expected_windows(Afterwards(how="quick"), BASELINE, RANKED)
    assert (quick["claim"], quick["attribute"], quick["confirm"]) == (12, 0, 0)
    assert sum(expected_windows(Afterwards(how="none"), BASELINE, RANKED).values()) == 0
    assert sum(expected_windows(NOTHING, BASELINE, RANKED).values()) == 0


def test_before_anything_but_the_baseline_was_measured():
    early = expected_windows(FULL, BASELINE, {BASELINE: 1.0}, more_trials=True)
    assert all(early[stage] > 0 for stage in STAGES)
    assert sum(expected_windows(FULL, BASELINE, {BASELINE: 1.0}).values()) == 0  # the search found nothing


def test_the_guard_checks_each_maths_once():
    assert expected_checks(FULL, BASELINE, RANKED) == 1  # bf16; workers and batch sizes touch no maths
    assert expected_checks(Afterwards(how="full", guarded=False), BASELINE, RANKED) == 0


def test_finalists_are_the_best_of_both_kinds():
    many = {BASELINE.replace(batch_size=64 + 8 * place): 0.1 * place for place in range(1, 6)} | {
        SAME: 0.8,
        BASELINE: 1.0,
    }
    assert finalists(FULL, BASELINE, list(many)) == [*list(many)[:3], SAME]
    assert finalists(Afterwards(how="full"), BASELINE, list(many)) == list(many)[:3]
