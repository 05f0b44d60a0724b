"""When compiling pays back: figures from the windows of a claim, and words."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any

import pytest

from autotune.config import Config
from autotune.errors import UsageError
from autotune.records import Compilation, Outcome, TrialRecord
from autotune.search.payback import PayBack, pay_back
from autotune.search.setup import Wishes, planned_samples
from autotune.search.verification.statistics import Verdict
from tests.search.simulated import FACTS, measurement

BASELINE = Config(batch_size=32, compile_mode="off")
COMPILED = Config(batch_size=64, compile_mode="default")


def claim_of(verdict: Verdict = Verdict.FASTER, candidate: Config = COMPILED) -> Any:
    arms = ["baseline", "candidate", "candidate", "baseline"]
    windows = [SimpleNamespace(trial=number, arm=arm, failure="") for number, arm in enumerate(arms)]
    return SimpleNamespace(verdict=verdict, baseline=dict(BASELINE), candidate=dict(candidate), windows=windows)


def record_of(number: int, *, planned: int | None = None, compiled_s: float = 2e-3) -> TrialRecord:
    compiled = number in (1, 2)
    start_s = 41.0 if compiled else 1.0
    config = COMPILED if compiled else BASELINE
    steady_s = compiled_s if compiled else 3e-3
    found = dataclasses.replace(
        measurement(dict(config), steady_s + (start_s / planned if planned else 0.0), 1 << 20),
        start_s=start_s,
        planned_samples=planned,
        compilation=Compilation(seconds=38.0, graphs=1) if compiled else None,
    )
    return TrialRecord(number=number, config=dict(config), outcome=Outcome.OK, measurement=found)


@pytest.mark.parametrize("planned", [None, 400_000])
def test_c19_extra_start_over_the_saving_per_step_of_the_baseline(planned):
    """40 s more at the start, 1 ms saved a sample: 40,000 samples are 1250 steps of 32."""
    found = pay_back(claim_of(), lambda number: record_of(number, planned=planned), planned)
    assert found is not None
    assert found.extra_s == pytest.approx(40.0)
    assert found.steps == pytest.approx(1250)
    assert "after about 1,200 steps of 32 samples" in found.sentence
    assert ("10 % of what you plan to train" in found.sentence) == (planned is not None)
    assert "40 s more at the start, 32 ms saved per step" in found.sentence


@pytest.mark.parametrize("verdict", [Verdict.SAME, Verdict.SLOWER, Verdict.INCONCLUSIVE])
def test_c19_nothing_is_said_without_a_proven_speed_up(verdict):
    assert pay_back(claim_of(verdict), record_of, None) is None


def test_nothing_is_said_where_nothing_is_compiled_or_saved():
    assert pay_back(claim_of(candidate=Config(batch_size=64)), record_of, None) is None
    assert pay_back(claim_of(), lambda number: record_of(number, compiled_s=3e-3), None) is None


def test_few_steps_are_said_as_they_are():
    assert "after about 7 steps" in PayBack(extra_s=7.0, saving_s=0.5, samples_per_step=2).sentence


def test_steps_and_epochs_are_samples_of_the_baseline():
    assert planned_samples(Wishes(), FACTS, 32) is None
    assert planned_samples(Wishes(steps=1000), FACTS, 32) == 32_000
    assert planned_samples(Wishes(epochs=1.5), FACTS, 32) == 3000
    with pytest.raises(UsageError, match="give one of them"):
        planned_samples(Wishes(steps=1, epochs=1), FACTS, 32)
    with pytest.raises(UsageError, match="nobody knows how long an epoch"):
        planned_samples(Wishes(epochs=1), dataclasses.replace(FACTS, dataset_length=None), 32)
