"""Which configs compete: for either answer, beside the baseline, and where a record says little."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import optuna
import pytest

from autotune.config import Config, read_document
from autotune.options.accumulation import samples_per_update
from autotune.records import REPEAT, Limits, Outcome, TrialRecord, TrialSpec
from autotune.search.aim import Aim
from autotune.search.measured import Measured, ranked
from autotune.search.observation import Observation, observe
from autotune.search.specs import Specs
from autotune.trials.runner import Report, silent
from tests.search.simulated import MIB, SimulatedRunner, measurement
from tests.search.test_search import Harness


@pytest.fixture
def search(tmp_path: Path) -> Harness:
    script = tmp_path / "train.py"
    script.write_text("x = 1\n")
    return Harness(script, tmp_path / "run")


def larger_is_faster(config: Mapping[str, Any]) -> float:
    """Nearly twice as fast at eight times the batch; what experts recommend is wrong here in one point."""
    factor = (0.8 if config.get("precision") == "bf16" else 1.0) * (1.3 if config.get("channels_last") else 1.0)
    return 1e-3 * (0.5 + 16 / config["batch_size"]) * factor


class StoppingRunner(SimulatedRunner):
    """Ends trials that are clearly slower than the best time that they were told, as trial processes do."""

    def _answer(self, spec: TrialSpec) -> TrialRecord:
        record = super()._answer(spec)
        found = record.measurement
        if found is None or spec.best_sample_s is None or found.sample_s < 1.1 * spec.best_sample_s:
            return record
        return dataclasses.replace(record, outcome=Outcome.PRUNED)


def test_a_config_at_the_baselines_batch_competes_with_those_alone(search: Harness) -> None:
    result = search(StoppingRunner(seconds=larger_is_faster), trials=16)
    best, same = (answer.config for answer in result.answers)
    assert larger_is_faster(best) < larger_is_faster(same) / 1.3
    assert (same["precision"], same["channels_last"]) == ("bf16", False)
    counterpart = result.search.space.canonical(best.replace(batch_size=32))
    assert result.search.measured[counterpart].usable


def test_a_repeat_is_not_held_against_the_disturbed_run_that_it_replaces(search: Harness) -> None:
    class Disturbed(StoppingRunner):
        """The expert's first run is far too fast, as one beside which others came and went may be."""

        def _answer(self, spec: TrialSpec) -> TrialRecord:
            record = super()._answer(spec)
            if len(self.asked) != 3 or record.measurement is None:
                return record
            found = record.measurement
            flagged = dataclasses.replace(found, sample_s=found.sample_s / 2, flags=("cpu_contended_hard",))
            return dataclasses.replace(record, measurement=flagged)

    result = search(Disturbed(noise=0.0), trials=6)
    first, repeat = [record for record in search.folder.records() if record.number in (2, 3)]
    assert (repeat.kind, repeat.config) == (REPEAT, first.config)
    assert repeat.outcome is Outcome.OK
    assert result.search.measured[Config(**first.config)].usable


def test_where_the_samples_of_an_update_are_given_the_baselines_others_are_no_rivals(search: Harness) -> None:
    def seconds(config: Mapping[str, Any]) -> float:
        return larger_is_faster({**config, "batch_size": config["batch_size"] * config.get("accumulation", 1)})

    runner = StoppingRunner(seconds=seconds)
    result = search(runner, trials=10, effective_batch=64, baseline={"batch_size": 512})
    assert samples_per_update(result.answers[0].config) == 64
    assert Outcome.PRUNED not in {item.seen[0].outcome for item in result.search.eligible()}
    assert {samples_per_update(item.config) for item in result.search.eligible()} == {64}


@pytest.mark.parametrize("verify", ["none", "quick"])
def test_a_baseline_of_other_samples_is_not_handed_out_though_nothing_is_faster(search: Harness, verify: str) -> None:
    runner = SimulatedRunner(noise=0.0, seconds=lambda config: 1e-3 * (1.0 if "accumulation" in config else 0.9))
    result = search(runner, trials=10, effective_batch=64, verify=verify)
    assert [samples_per_update(answer.config) for answer in result.answers] == [64]
    assert samples_per_update(Config(**read_document(search.folder.best)["options"])) == 64


def test_the_sampler_does_not_hold_what_may_be_an_answer_against_what_may_not(search: Harness) -> None:
    """The baseline is faster than every config of the samples asked for: these are searched all the same."""

    def seconds(config: Mapping[str, Any]) -> float:
        if samples_per_update(Config(**config)) != 64:
            return 1e-4
        return (
            1e-3 * (0.5 if config.get("precision") == "bf16" else 1.0) * (0.8 if config.get("channels_last") else 1.0)
        )

    runner = SimulatedRunner(noise=0.0, seconds=seconds)
    result = search(runner, trials=16, effective_batch=64)
    assert len(runner.configs) > 8
    assert seconds(result.answers[0].config) == pytest.approx(4e-4)


def test_where_the_baseline_is_all_that_is_left_it_is_handed_out_once(search: Harness) -> None:
    """What was lucky in the search at both batch sizes is no faster when it is measured again."""
    windows = itertools.count()

    class Runner(SimulatedRunner):
        again = False

        def run(self, spec: TrialSpec, log: Path, report: Report = silent) -> TrialRecord:
            self.again = spec.kind == "verification"
            return super().run(spec, log, report)

    runner = Runner(noise=0.0)

    def seconds(config: Mapping[str, Any]) -> float:
        if runner.again:
            return 1e-3 * (1 + 0.001 * ((7 * next(windows)) % 5))
        return 1e-3 * (1.0 if config["batch_size"] == 32 else 0.8) * (0.9 if config.get("channels_last") else 1.0)

    runner.seconds = seconds
    result = search(runner, trials=8, verify="full")
    assert [answer.config for answer in result.answers] == [result.search.baseline.config]
    assert not search.folder.best_same_batch.exists()


@pytest.mark.parametrize("ended", [Outcome.CRASHED, Outcome.TIMEOUT])
def test_a_baseline_that_failed_once_among_replicates_is_still_the_baseline(search: Harness, ended: Outcome) -> None:
    baselines = iter(range(100))

    def rule(spec: TrialSpec) -> Outcome | None:
        return ended if spec.kind in ("baseline", "replicate") and next(baselines) == 2 else None

    runner = SimulatedRunner(rule=rule, seconds=lambda config: 1e-3 if dict(config) == runner.configs[0] else 2e-3)
    result = search(runner, trials=14, verify="quick")
    assert result.search.baseline.usable
    assert result.answers[0].config == result.search.baseline.config


def test_a_config_that_failed_once_is_no_answer() -> None:
    outcomes = (Outcome.OK, Outcome.CRASHED, Outcome.OK)
    seen = [Observation(config=Config(), outcome=item, sample_s=1.0) for item in outcomes]
    assert not Measured(Config(), seen=seen).usable
    assert Measured(Config(), seen=seen, reference=True).usable
    assert not Measured(Config(), seen=seen[:2], reference=True).usable


def test_a_record_that_says_it_was_measured_and_holds_nothing_is_an_error() -> None:
    record = TrialRecord(number=3, config={}, outcome=Outcome.OK)
    assert observe(record, Config(), 100, accelerator=False).outcome is Outcome.ERROR


def test_a_peak_that_nobody_knows_is_not_the_smallest() -> None:
    def item(size: int, host: int) -> Measured:
        config = Config(batch_size=size)
        record = TrialRecord(
            number=size, config=dict(config), outcome=Outcome.OK, measurement=measurement(config, 1e-3, host)
        )
        measured = Measured(config)
        measured.add(record, observe(record, config, 1 << 40, accelerator=False))
        return measured

    order = ranked([item(8, 0), item(16, 50 * MIB), item(32, 60 * MIB)], Aim(keep=0.9))
    assert [measured.config["batch_size"] for measured in order] == [16, 32, 8]


def test_what_torch_does_not_hold_may_take_all_of_the_limit(search: Harness) -> None:
    result = search(SimulatedRunner(), trials=3)
    prepared = dataclasses.replace(result.prepared, limits=Limits(host_bytes=1 << 30, device_bytes=100))
    specs = Specs(prepared, result.search.specs.wishes, search.folder)
    found = measurement({"batch_size": 32}, 1e-3, 1)
    peaks = dataclasses.replace(found.lifetime, outside_torch=500)
    record = TrialRecord(
        number=0, config={}, outcome=Outcome.OK, measurement=dataclasses.replace(found, lifetime=peaks)
    )
    specs.learn(record, Config())
    assert specs.make(1, Config()).limits.device_bytes == 0


def test_gp_learns_beside_a_baseline_off_the_grid(search: Harness) -> None:
    """Its parameters are those that all completed trials have in common: a baseline without any would take them all."""
    result = search(SimulatedRunner(), trials=8, sampler="gp", baseline={"batch_size": 50})
    study = optuna.load_study(study_name=None, storage=f"sqlite:///{search.folder.study}")
    common = optuna.search_space.intersection_search_space(study.get_trials())
    assert common.keys() == result.search.space.choices.keys()
    assert result.search.baseline.usable


def test_a_trial_that_was_put_in_the_queue_and_never_begun_is_closed_by_a_resumed_search(search: Harness) -> None:
    search(SimulatedRunner(), trials=1)
    study = optuna.load_study(study_name=None, storage=f"sqlite:///{search.folder.study}")
    first = next(trial.params for trial in study.trials if trial.params)
    study.enqueue_trial({**first, "batch_size": 128})
    rest = SimulatedRunner()
    result = search(rest, trials=8, resume=True)
    assert search.states()["WAITING"] == 0
    stored = {
        trial.number: trial
        for trial in optuna.load_study(study_name=None, storage=f"sqlite:///{search.folder.study}").trials
    }
    for measured in result.search.measured.values():
        for record in measured.records:
            params = stored[record.number].params
            assert all(params[name] == value for name, value in measured.config.items() if name in params)


@pytest.mark.parametrize("fails", [True, False])
def test_a_script_whose_state_fits_one_batch_size_is_measured_without_steps_on_another(
    search: Harness, fails: bool
) -> None:
    runner = SimulatedRunner(rule=lambda spec: Outcome.ERROR if fails and spec.small_batch is not None else None)
    result = search(runner, trials=6)
    assert result.search.baseline.usable
    small = [spec for spec in runner.asked if spec.small_batch is not None]
    assert len(small) == 1 if fails else len(small) > 1
    assert any("fails after steps on a smaller batch" in note for note in search.listener.notes) is fails
