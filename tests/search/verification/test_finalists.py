"""Who goes into the verification."""

from __future__ import annotations

from autotune.config import Config
from autotune.records import Outcome
from autotune.search.aim import Aim
from autotune.search.observation import Observation
from autotune.search.verification import finalists


def seen(size: int, sample_s: float | None, outcome: Outcome = Outcome.OK, **others) -> Observation:
    return Observation(config=Config(batch_size=size), outcome=outcome, sample_s=sample_s, **others)


def sizes(observations, keeps=lambda config: False, **others) -> list[int]:
    return [config["batch_size"] for config in finalists(observations, keeps, **others)]


def test_three_and_those_near_the_third_but_no_more_than_five():
    clear = [seen(8 * place, 1.0 + place / 10) for place in range(1, 8)]
    assert sizes(clear) == [8, 16, 24]
    near = [seen(8 * place, 1.0 + place / 100) for place in range(1, 8)]
    assert sizes(near) == [8, 16, 24, 32, 40]


def test_those_that_keep_the_batch_have_places_of_their_own():
    observations = [seen(8 * place, 1.0 + place / 10) for place in range(1, 8)]
    assert sizes(observations, lambda config: config["batch_size"] > 40) == [8, 16, 24, 48, 56]


def test_replicates_count_once_with_their_mean():
    observations = [seen(8, 1.0), seen(8, 2.0), seen(16, 1.2), seen(24, 1.3)]
    assert sizes(observations) == [16, 24, 8]


def test_who_failed_once_did_not_fit_or_was_proven_slower_is_out():
    observations = [
        seen(8, 1.0),
        seen(8, None, Outcome.CRASHED),
        seen(16, 1.0, Outcome.PRUNED),
        seen(24, 1.0, peak_bytes=11, limit_bytes=10),
        seen(32, 1.0),
        seen(40, 1.1),
    ]
    assert sizes(observations, barred=[Config(batch_size=40)]) == [32]


def test_where_memory_is_to_be_small_the_smallest_go_and_the_fastest_to_judge_them_by():
    observations = [seen(8 * place, 1.0 + place / 100, peak_bytes=100 - place) for place in range(1, 8)]
    slow = seen(64, 2.0, peak_bytes=1)
    assert sizes([*observations, slow], aim=Aim(keep=0.95)) == [48, 40, 32, 8]
    assert sizes([*observations, slow], lambda config: config["batch_size"] == 64, aim=Aim(keep=0.95))[-1] == 64


def test_where_memory_is_to_be_small_the_baseline_may_be_what_all_are_judged_by():
    observations = [seen(8, 1.03, peak_bytes=70), seen(16, 1.07, peak_bytes=50)]
    assert sizes(observations, aim=Aim(keep=0.95)) == [16, 8]
    assert sizes(observations, aim=Aim(keep=0.95), baseline_s=1.0) == [8]


def test_nothing_measured_nobody_goes():
    assert sizes([]) == []
