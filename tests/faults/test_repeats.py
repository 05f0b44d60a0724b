"""Disturbed trials and windows: measured once more, counted once; a machine that drifts is named."""

from __future__ import annotations

import dataclasses
from collections import Counter
from pathlib import Path
from typing import Any

import optuna
import pytest

from autotune.config import Config
from autotune.documents import read_record, to_json
from autotune.drift import drifts
from autotune.records import REPEAT, Outcome, Source, TrialRecord, TrialSpec
from autotune.report.rows import rows_of
from autotune.search.observation import counting
from autotune.search.run import search_workload
from autotune.search.setup import Wishes
from autotune.search.verification.statistics import Verdict
from autotune.search.verification.windows import Bench
from autotune.trials.folder import RunFolder
from tests.search.simulated import Listener, SimulatedRunner, measurement

HARD = "cpu_contended_hard"


class Disturbed(SimulatedRunner):
    """Puts a hard flag on, and doubles the time of, the runs whose place in the order `which` names."""

    def __init__(self, which: set[int] | None, flag: str = HARD) -> None:
        super().__init__()
        self.which, self.flag = which, flag

    def _answer(self, spec: TrialSpec) -> TrialRecord:
        record = super()._answer(spec)
        if (self.which is not None and len(self.asked) - 1 not in self.which) or record.measurement is None:
            return record
        found = dataclasses.replace(record.measurement, sample_s=2 * record.measurement.sample_s, flags=(self.flag,))
        return dataclasses.replace(record, measurement=found)


@pytest.fixture
def search(tmp_path):
    script = tmp_path / "train.py"
    script.write_text("x = 1\n")

    def run(runner: SimulatedRunner, name: str = "run", **options: Any) -> Any:
        flow = {key: options.pop(key) for key in ("resume", "verify") if key in options}
        wishes = Wishes(**{"trials": 8, "host_memory_limit_bytes": 1 << 30, "headroom": 0.0, **options})
        listener = Listener()
        result = search_workload(
            Source(script=str(script)), RunFolder(tmp_path / name), wishes, listener, runner=runner,
            **{"verify": "none", **flow},
        )  # fmt: skip
        return result, listener

    return run


def test_a_disturbed_trial_is_measured_once_more_and_counts_once(search):
    calm, disturbed = SimulatedRunner(), Disturbed({4})
    undisturbed, _ = search(calm, "calm")
    result, listener = search(disturbed, "disturbed")
    # the same search, with one more run of the disturbed config; nothing else is asked for or chosen
    assert disturbed.configs[:5] + disturbed.configs[6:] == calm.configs
    assert disturbed.configs[5] == disturbed.configs[4]
    assert listener.labels[5] == REPEAT
    assert f"trial 4 was disturbed ({HARD}): measured once more, which counts in its place" in listener.notes
    assert result.best == undisturbed.best
    config = Config(**disturbed.configs[4])
    assert result.search.measured[config].sample_s == undisturbed.search.measured[config].sample_s
    kinds = Counter(record.kind for record in result.folder.records() if record.kind != "numerics")
    assert kinds[REPEAT] == 1
    assert sum(kinds.values()) == 9
    rows = rows_of(result.folder.records(), baseline=result.search.space.baseline, accelerator=False)
    row = next(row for row in rows if row.config == config)
    assert (row.runs, row.flags) == (1, ())


def test_a_disturbed_baseline_keeps_its_two_runs(search):
    disturbed = Disturbed({0})
    _, listener = search(disturbed)
    assert listener.labels[:4] == ["baseline", REPEAT, "replicate", "trial"]


def test_there_is_one_repeat_and_no_second(search):
    always = Disturbed(None)
    _, listener = search(always)
    assert Counter(listener.labels)[REPEAT] == 8
    assert len(always.configs) == 16


def test_a_repeat_that_fails_leaves_the_run_that_it_repeats(search):
    class Stray(Disturbed):
        def _answer(self, spec: TrialSpec) -> TrialRecord:
            record = super()._answer(spec)
            if spec.kind != REPEAT:
                return record
            return dataclasses.replace(record, outcome=Outcome.ERROR, measurement=None)

    result, listener = search(Stray({0}))
    assert Counter(listener.labels)[REPEAT] == 1
    assert result.search.baseline.usable


def test_soft_flags_repeat_nothing(search):
    _, listener = search(Disturbed(None, "noisy"))
    assert REPEAT not in listener.labels


def test_the_repeat_of_an_interrupted_search_comes_when_it_is_resumed(search):
    class Cut(Disturbed):
        def _answer(self, spec: TrialSpec) -> TrialRecord:
            if spec.kind == REPEAT:
                raise KeyboardInterrupt
            return super()._answer(spec)

    cut = Cut({4})
    result, _ = search(cut)
    assert result.interrupted
    rest = SimulatedRunner()
    result, listener = search(rest, resume=True)
    assert listener.labels[0] == REPEAT
    assert rest.configs[0] == cut.configs[4]
    study = optuna.load_study(study_name=None, storage=f"sqlite:///{result.folder.study}")
    told = Counter(trial.user_attrs.get("kind") for trial in study.trials if trial.state.name == "COMPLETE")
    assert (sum(told.values()), told[REPEAT]) == (9, 1)


def test_a_config_that_stays_disturbed_is_no_finalist_where_others_are_sound(search):
    class Neighbour(Disturbed):
        """Disturbs what would win."""

        def _answer(self, spec: TrialSpec) -> TrialRecord:
            self.which = None if spec.config["precision"] == "bf16" else set()
            return super()._answer(spec)

    result, _ = search(Neighbour(set()), trials=12, sampler="random")
    assert result.best["precision"] == "fp32"
    assert result.best != result.search.space.baseline


def test_where_all_but_the_baseline_stay_disturbed_it_does_not_win_unopposed(search):
    class QuietOnce(Disturbed):
        def _answer(self, spec: TrialSpec) -> TrialRecord:
            self.which = set() if spec.kind in ("baseline", "replicate") else None
            return super()._answer(spec)

    result, _ = search(QuietOnce(set()), trials=12)
    assert result.best["precision"] == "bf16"


def test_a_sound_config_does_not_win_over_a_disturbed_baseline_that_was_faster(search):
    class QuietLater(Disturbed):
        """Disturbs the baseline; everything else is sound, and four times slower."""

        def __init__(self) -> None:
            super().__init__(set())
            self.seconds = lambda config: 1e-3 if config["precision"] == "fp32" and config["batch_size"] == 32 else 4e-3

        def _answer(self, spec: TrialSpec) -> TrialRecord:
            self.which = None if spec.config == spec.baseline else set()
            return super()._answer(spec)

    result, _ = search(QuietLater(), trials=6, sampler="random", fixed={"num_workers": 0, "channels_last": False})
    assert result.best["precision"] == "fp32"
    assert result.best["batch_size"] == 32


def test_a_repeat_stands_in_the_place_of_its_run(search):
    runner = Disturbed({2, 5})
    result, _ = search(runner)
    seen = [item for measured in result.search.measured.values() for item in measured.seen]
    assert len(seen) == 8
    assert sum(item.repeat for item in seen) == 2
    assert counting([seen[0], dataclasses.replace(seen[0], repeat=True)]) == [dataclasses.replace(seen[0], repeat=True)]


# ---- verification ----


def window_records(tmp_path: Path, *flags: tuple[str, ...] | None) -> Any:
    """Return a measure function whose windows carry `flags` in turn; None fails."""
    asked: list[str] = []
    turn = iter(flags)

    def measure(config: Config, label: str) -> TrialRecord:
        asked.append(label)
        these = next(turn)
        outcome = Outcome.OK if these is not None else Outcome.TIMEOUT
        found = measurement(config, 1e-3, 1, these) if these is not None else None
        record = TrialRecord(number=len(asked), config=dict(config), outcome=outcome, measurement=found)
        (tmp_path / "record").write_text(to_json(record))
        return read_record(tmp_path / "record")

    return measure, asked


@pytest.mark.parametrize(
    ("flags", "runs", "disturbed", "failure"),
    [
        ([()], 1, False, ""),
        ([("noisy",)], 1, False, ""),
        ([(HARD,), ()], 2, False, ""),
        ([(HARD,), (HARD,)], 2, True, ""),
        ([None, ()], 2, False, ""),
        ([None, None], 2, False, "timeout"),
    ],
)
def test_a_disturbed_or_failed_window_is_taken_once_more(tmp_path, flags, runs, disturbed, failure):
    measure, asked = window_records(tmp_path, *flags)
    window = Bench(measure).take(Config(batch_size=8), stage="claim", round=0, rounds=6, arm="baseline")
    assert asked == ["claim 1/6: baseline", "claim 1/6: baseline, again"][:runs]
    assert (window.trial, window.disturbed, window.failure) == (runs, disturbed, failure)
    assert window.instead_of == (1 if runs == 2 else None)


def test_no_window_is_repeated_beyond_the_time(tmp_path):
    measure, asked = window_records(tmp_path, (HARD,), ())
    clock = iter(range(0, 1000, 10))
    bench = Bench(measure, deadline_s=25, clock=lambda: next(clock))
    bench.take(Config(batch_size=8), stage="claim", round=0, rounds=6, arm="baseline")
    assert len(asked) == 1


def test_a_noisy_machine_ends_in_inconclusive_with_the_rounds_it_would_need(search):
    class Busy(Disturbed):
        def _answer(self, spec: TrialSpec) -> TrialRecord:
            self.which = None if spec.kind == "verification" else set()
            return super()._answer(spec)

    result, _ = search(Busy(set()), verify="quick")
    for answer in result.answers:
        assert answer.claim is not None
        assert answer.claim.verdict is Verdict.INCONCLUSIVE
        assert "faster" not in answer.sentence
        assert f"about {answer.claim.rounds_needed} undisturbed rounds would be needed" in answer.sentence
        assert answer.claim.rounds_needed >= 6


# ---- drift ----


def run_of(number: int, sample_s: float, kind: str = "replicate", flags: tuple[str, ...] = ()) -> TrialRecord:
    size = 64 if kind == "trial" else 32
    found = measurement({"batch_size": size}, sample_s, 1, flags)
    return TrialRecord(number=number, kind=kind, config={"batch_size": size}, outcome=Outcome.OK, measurement=found)


@pytest.mark.parametrize(
    ("times", "found"),
    [
        ([1.0, 1.05, 1.02], []),
        ([1.0, 1.3], [(0, 10)]),
        ([1.3, 1.0], [(0, 10)]),
        ([1.0, 1.09, 1.18], [(0, 20)]),  # in small steps
        ([1.0, 1.3, 1.31], [(0, 10)]),
        ([1.0, 1.3, 1.0], [(0, 10), (10, 20)]),
        ([1.0], []),
    ],
)
def test_a_baseline_that_moved_more_than_the_noise_allows_is_drift(times, found):
    records = [run_of(10 * place, time, "replicate" if place else "baseline") for place, time in enumerate(times)]
    assert [(drift.first, drift.last) for drift in drifts(records)] == found


def test_disturbed_runs_of_the_baseline_show_no_drift():
    assert drifts([run_of(0, 1.0, "baseline"), run_of(10, 2.0, flags=(HARD,))]) == []


def test_drift_marks_the_trials_between_and_is_said():
    records = [
        run_of(0, 1.0, "baseline"),
        run_of(1, 1.0),
        run_of(2, 0.9, "trial"),
        run_of(3, 1.4),
    ]
    rows = rows_of(records, baseline=Config(batch_size=32), accelerator=False)
    assert {row.config["batch_size"]: row.flags for row in rows} == {32: (), 64: ("drift",)}
    (drift,) = drifts(records)
    assert drift.sentence().startswith("machine drifted: the baseline took 40% longer in trial 3 than in trial 1;")


def test_a_search_says_that_the_machine_drifted(search):
    class Slowing(SimulatedRunner):
        def _answer(self, spec: TrialSpec) -> TrialRecord:
            record = super()._answer(spec)
            if record.measurement is None:
                return record
            slower = 1.5 if len(self.asked) > 8 else 1.0
            found = dataclasses.replace(record.measurement, sample_s=slower * record.measurement.sample_s)
            return dataclasses.replace(record, measurement=found)

    _, listener = search(Slowing(), trials=14, sampler="random")
    assert (
        [note for note in listener.notes if note.startswith("machine drifted")]
        == [note for note in listener.notes if "50% longer in trial 10 than in trial 1" in note]
        != []
    )
