"""A whole search against a make-believe workload: order, budget, failures, resume, answers."""

from __future__ import annotations

import dataclasses
import os
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import optuna
import pytest

from autotune.config import Config, read_document
from autotune.errors import DoesNotFit, RunFolderError, ScriptError, SearchFailed, UsageError
from autotune.facts import ScriptFacts
from autotune.records import Outcome, Source, TrialRecord, TrialSpec
from autotune.report.evidence import gather
from autotune.report.run import read_run
from autotune.search.run import Result, search_workload
from autotune.search.setup import Wishes
from autotune.trials.folder import RunFolder
from tests.search.simulated import FACTS, MIB, Listener, SimulatedRunner, measurement

GIB = 1 << 30


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text("x = 1\n")
    return path


class Harness:
    """Runs searches in one folder."""

    def __init__(self, script: Path, folder: Path) -> None:
        self.source = Source(script=str(script))
        self.folder = RunFolder(folder)
        self.listener = Listener()

    def __call__(self, runner: SimulatedRunner, *, verify: str = "none", **options: Any) -> Result:
        flow = {name: options.pop(name) for name in ("resume", "force", "storage") if name in options}
        wishes = Wishes(**{"trials": 8, "host_memory_limit_bytes": GIB, "headroom": 0.0, **options})
        return search_workload(self.source, self.folder, wishes, self.listener, verify=verify, runner=runner, **flow)

    def states(self) -> Counter[str]:
        study = optuna.load_study(study_name=None, storage=f"sqlite:///{self.folder.study}")
        return Counter(trial.state.name for trial in study.trials)


@pytest.fixture
def search(script: Path, tmp_path: Path) -> Harness:
    return Harness(script, tmp_path / "run")


def test_the_baseline_comes_first_and_twice_then_the_expert(search: Harness) -> None:
    runner = SimulatedRunner()
    search(runner)
    baseline = {"batch_size": 32, "precision": "fp32", "num_workers": 0, "channels_last": False, "num_threads": 0}
    assert runner.configs[:2] == [baseline, baseline]
    assert runner.configs[2]["precision"] == "bf16"
    assert runner.configs[2]["batch_size"] == 32
    assert len(runner.configs) == 8


@pytest.mark.parametrize("sampler", ["structured", "tpe", "random"])
def test_no_config_is_measured_twice_as_a_new_point(search: Harness, sampler: str) -> None:
    runner = SimulatedRunner()
    search(runner, trials=25, sampler=sampler)
    counts = Counter(tuple(sorted(config.items())) for config in runner.configs)
    repeated = [dict(config) for config, count in counts.items() if count > 1]
    assert [config["batch_size"] for config in repeated] == [32]
    assert len(runner.configs) <= 25


def test_c18_mixed_precision_that_is_slower_is_measured_and_not_chosen(search: Harness) -> None:
    def casts_cost_more(config: Mapping[str, Any]) -> float:
        return 1e-3 * (1.6 if config["precision"] == "bf16" else 1.0)

    runner = SimulatedRunner(seconds=casts_cost_more)
    result = search(runner, trials=8)
    assert any(config["precision"] == "bf16" for config in runner.configs)
    assert result.best is not None
    assert result.best["precision"] == "fp32"


COMPILER = dataclasses.replace(FACTS, compile_refused=None)


def compiled_seconds(config: Mapping[str, Any]) -> float:
    """Compiling gains 1.5x."""
    return 1e-3 / (1.5 if config["compile_mode"] == "default" else 1.0)


def compile_start(config: Mapping[str, Any]) -> float:
    return 31.0 if config["compile_mode"] == "default" else 1.0


@pytest.mark.parametrize(("timeout_s", "budget_s"), [(None, 15.0), (3600.0, 15.0), (200.0, 10.0), (1.0, 2.0)])
def test_a_time_limit_is_shared_out_among_the_trials(search: Harness, timeout_s: float | None, budget_s: float) -> None:
    runner = SimulatedRunner()
    search(runner, trials=10, timeout_s=timeout_s, verify="none")
    assert {spec.limits.budget_s for spec in runner.asked} == {budget_s}


@pytest.mark.parametrize(("steps", "mode"), [(1000, "off"), (100_000, "default"), (None, "default")])
def test_c19_compiling_is_chosen_where_the_planned_training_pays_it_back(
    search: Harness, steps: int | None, mode: str
) -> None:
    """30 s more at the start, 1/3 ms saved a sample: it takes 90,000 samples, of 32 a step."""
    runner = SimulatedRunner(facts=COMPILER, seconds=compiled_seconds, start=compile_start, noise=0.0)
    result = search(runner, steps=steps, restricted={"compile_mode": ["off", "default"]}, trials=10)
    assert result.best is not None
    assert result.best["compile_mode"] == mode
    assert any("spread over" in line for line in search.listener.title) == (steps is not None)


def test_c19_a_training_shorter_than_compiling_leaves_it_out(search: Harness) -> None:
    runner = SimulatedRunner(facts=COMPILER)
    result = search(runner, steps=100, trials=14)
    assert "all that you plan to train" in result.prepared.space.reasons["compile_mode"]
    assert all("compile_mode" not in config for config in runner.configs)


def test_c19_a_small_search_on_a_cpu_leaves_it_out_unless_asked(search: Harness) -> None:
    result = search(SimulatedRunner(facts=COMPILER), trials=8)
    assert "fewer than 12 trials" in result.prepared.space.reasons["compile_mode"]
    again = search(SimulatedRunner(facts=COMPILER), trials=8, fixed={"compile_mode": "default"}, force=True)
    assert again.prepared.space.choices["compile_mode"] == ("default",)


def test_c19_a_small_search_resumed_with_more_trials_stays_the_search_it_was(search: Harness) -> None:
    search(SimulatedRunner(facts=COMPILER), trials=6)
    for _ in range(2):
        result = search(SimulatedRunner(facts=COMPILER), trials=14, resume=True)
        assert "compile_mode" in result.prepared.space.reasons


def test_e10_compiled_code_that_is_slower_is_measured_and_not_chosen(search: Harness) -> None:
    def slower(config: Mapping[str, Any]) -> float:
        return 1e-3 * (1.3 if config["compile_mode"] != "off" else 1.0)

    runner = SimulatedRunner(facts=COMPILER, seconds=slower)
    asked = {"compile_mode": ["off", "max-autotune-no-cudagraphs"]}
    result = search(runner, trials=10, restricted=asked, sampler="random")
    assert any(config["compile_mode"] != "off" for config in runner.configs)
    assert result.best is not None
    assert result.best["compile_mode"] == "off"


def test_c19_a_trial_that_compiles_gets_the_time_for_it(search: Harness) -> None:
    runner = SimulatedRunner(facts=COMPILER)
    few = {"batch_size": [32, 64], "precision": ["fp32"], "compile_mode": ["off", "default"]}  # all are measured
    search(runner, trials=10, trial_timeout_s=60.0, restricted=few, excluded=["num_workers", "channels_last"])
    limits = {spec.config["compile_mode"]: spec.limits.timeout_s for spec in runner.asked if spec.kind == "trial"}
    assert limits["off"] == 60.0
    assert limits["default"] >= 300.0
    assert all(spec.small_batch is None for spec in runner.asked if spec.config["compile_mode"] == "default")


def test_every_tenth_trial_is_a_replicate_of_the_baseline(search: Harness) -> None:
    runner = SimulatedRunner()
    search(runner, trials=22, sampler="random")
    places = [index for index, config in enumerate(runner.configs) if config == runner.configs[0]]
    assert places == [0, 1, 10, 20]


def test_the_structured_search_finds_a_good_config_within_the_memory(search: Harness) -> None:
    runner = SimulatedRunner()
    result = search(runner, trials=16, host_memory_limit_bytes=400 * MIB)
    best = result.best
    assert best is not None
    assert best["precision"] == "bf16"
    assert best["channels_last"] is True
    assert runner.host_bytes(best) <= 400 * MIB


@pytest.mark.parametrize("sampler", ["random", "grid"])
@pytest.mark.parametrize("batch_size", [32, 50])
def test_a_small_space_is_measured_whole_and_the_search_says_so(search: Harness, sampler: str, batch_size: int) -> None:
    runner = SimulatedRunner()
    restricted, excluded = {"batch_size": [32, 64]}, ["num_workers", "num_threads"]
    today = {"batch_size": batch_size}
    result = search(runner, trials=50, sampler=sampler, restricted=restricted, excluded=excluded, baseline=today)
    configs = {tuple(sorted(config.items())) for config in runner.configs if config["batch_size"] in (32, 64)}
    assert len(configs) == 2 * 2 * 2
    assert "every config" in result.search.stopped_because


def test_a_baseline_off_the_grid_is_measured_as_it_is(search: Harness) -> None:
    runner = SimulatedRunner()
    result = search(runner, baseline={"batch_size": 50})
    assert [config["batch_size"] for config in runner.configs[:2]] == [50, 50]
    # the rest is on the grid, but for what the second answer needs
    assert all(config["batch_size"] % 8 == 0 or config["batch_size"] == 50 for config in runner.configs[2:])
    assert result.search.baseline.config["batch_size"] == 50


def test_a_failing_baseline_ends_the_search_with_the_users_traceback(search: Harness) -> None:
    runner = SimulatedRunner(rule=lambda spec: Outcome.ERROR)
    with pytest.raises(ScriptError, match="the baseline does not run") as caught:
        search(runner)
    assert caught.value.traceback == "their line\n"
    assert [spec.small_batch is None for spec in runner.asked] == [False, True]  # perhaps it failed by the other size
    assert search.states() == {"FAIL": 1}


def test_a_search_that_ended_with_its_baseline_measures_it_again_when_it_is_resumed(search: Harness) -> None:
    with pytest.raises(ScriptError):
        search(SimulatedRunner(rule=lambda spec: Outcome.ERROR))
    with pytest.raises(ScriptError):
        search(SimulatedRunner(rule=lambda spec: Outcome.ERROR), resume=True)
    mended = SimulatedRunner()
    result = search(mended, resume=True, verify="quick")
    assert mended.configs[0] == mended.configs[1] == dict(result.search.baseline.config)
    assert result.search.baseline.usable
    assert result.answers[0].claim is not None


def test_b9_a_baseline_that_does_not_fit_sends_the_search_down(search: Harness) -> None:
    runner = SimulatedRunner(host_bytes=lambda config: config["batch_size"] * MIB)
    result = search(runner, baseline={"batch_size": 256}, host_memory_limit_bytes=100 * MIB, trials=12)
    assert runner.configs[0]["batch_size"] == 256
    assert result.best is not None
    assert result.best["batch_size"] <= 100
    assert search.states()["PRUNED"] >= 1


def test_a14_nothing_fits_is_an_error_and_never_a_default(search: Harness) -> None:
    runner = SimulatedRunner(host_bytes=lambda config: GIB)
    with pytest.raises(DoesNotFit, match=r"nothing fits into 500 MiB of host memory"):
        search(runner, host_memory_limit_bytes=500 * MIB, trials=6, headroom=0.0)
    assert not search.folder.best.exists()


def test_g5_failures_that_are_all_alike_end_the_search_after_three(search: Harness) -> None:
    def rule(spec: TrialSpec) -> Outcome:
        return Outcome.TIMEOUT

    runner = SimulatedRunner(rule=rule)
    with pytest.raises(SearchFailed, match="failed alike") as caught:
        search(runner, trials=20)
    assert len(runner.asked) == 3
    assert caught.value.traceback == "their line\n"


def test_a_baseline_that_fails_when_it_is_run_again_is_said_with_its_failure(search: Harness) -> None:
    """It was measured once, and a config that failed once is no answer: nothing is left, and that must be said."""
    flaky = SimulatedRunner(rule=lambda spec: Outcome.ERROR if spec.number else None)
    with pytest.raises(SearchFailed, match=r"without a failure; the trials: \d+ error, 1 ok; trial \d+: ") as caught:
        search(flaky, trials=3)
    assert caught.value.traceback == "their line\n"
    assert caught.value.hint is not None
    assert "See " in caught.value.hint


def test_c04_a_baseline_that_hangs_does_not_end_the_search(search: Harness) -> None:
    hangs = SimulatedRunner(rule=lambda spec: Outcome.TIMEOUT if spec.config.get("num_workers") else None)
    result = search(hangs, baseline={"batch_size": 32, "num_workers": 2}, trials=10)
    assert result.best is not None
    assert result.best["num_workers"] == 0


def test_a_trial_that_ran_but_does_not_fit_is_never_chosen(search: Harness) -> None:
    def over(spec: TrialSpec) -> None:
        return None

    runner = SimulatedRunner(host_bytes=lambda config: (600 if config["precision"] == "bf16" else 100) * MIB, rule=over)
    # the watchdog may miss a peak that the record shows: the constraint decides
    result = search(runner, host_memory_limit_bytes=500 * MIB, trials=12)
    assert result.best is not None
    assert result.best["precision"] == "fp32"


def test_an_existing_run_is_never_overwritten_unasked(search: Harness) -> None:
    search(SimulatedRunner(), trials=3)
    before = search.folder.study.read_bytes()
    with pytest.raises(RunFolderError, match="holds an earlier search"):
        search(SimulatedRunner(), trials=3)
    assert search.folder.study.read_bytes() == before
    search(SimulatedRunner(), trials=4, force=True)
    assert sum(search.states().values()) == 4


def test_resume_without_its_study_overwrites_no_record(search: Harness) -> None:
    search(SimulatedRunner(), trials=3)
    search.folder.study.unlink()
    before = {path.name: path.read_bytes() for path in search.folder.trials.iterdir() if path.stem.isdigit()}
    for _ in range(2):  # the first attempt has made a study, an empty one
        with pytest.raises(RunFolderError, match="holds 3 trials that its study does not know"):
            search(SimulatedRunner(), trials=4, resume=True)
    after = {path.name: path.read_bytes() for path in search.folder.trials.iterdir() if path.stem.isdigit()}
    assert after == before


def test_resume_without_a_run_is_an_error(search: Harness) -> None:
    with pytest.raises(RunFolderError, match="no search to resume"):
        search(SimulatedRunner(), resume=True)


def test_g3_an_interrupted_search_keeps_what_it_found_and_resumes_as_if_undisturbed(
    search: Harness, script: Path, tmp_path: Path
) -> None:
    undisturbed = SimulatedRunner()
    Harness(script, tmp_path / "undisturbed")(undisturbed, trials=14)

    cut = SimulatedRunner(rule=lambda spec: KeyboardInterrupt() if spec.number == 6 else None)
    result = search(cut, trials=14)
    assert result.interrupted
    assert Config.load(search.folder.best) is not None
    assert search.states() == {"COMPLETE": 6, "FAIL": 1}

    rest = SimulatedRunner()
    search(rest, trials=14, resume=True)
    assert cut.configs[:6] + rest.configs == undisturbed.configs
    assert any("resumed with 6 trials" in note for note in search.listener.notes)
    assert search.states()["COMPLETE"] == 14
    assert "RUNNING" not in search.states()


def test_a_trial_that_was_recorded_but_not_told_is_not_lost(search: Harness) -> None:
    cut = SimulatedRunner()
    original = cut.run

    def run(spec: TrialSpec, *rest: Any) -> TrialRecord:
        record = original(spec, *rest)
        if spec.kind == "trial":
            os._exit(9)  # as SIGKILL: the record is on disk, the study knows nothing of it
        return record

    cut.run = run  # type: ignore[method-assign]
    pid = os.fork()
    if pid == 0:
        search(cut, trials=6)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9
    assert search.states() == {"COMPLETE": 2, "RUNNING": 1}

    rest = SimulatedRunner()
    search(rest, trials=6, resume=True)
    assert len(rest.configs) == 3
    assert search.states() == {"COMPLETE": 6}


def test_resume_refuses_another_script_and_names_what_differs(search: Harness, script: Path) -> None:
    search(SimulatedRunner(), trials=3)
    script.write_text("x = 2\n")
    with pytest.raises(UsageError, match="script: "):
        search(SimulatedRunner(), resume=True)


def test_resume_refuses_another_space(search: Harness) -> None:
    search(SimulatedRunner(), trials=3)
    with pytest.raises(UsageError, match="choices of precision"):
        search(SimulatedRunner(), resume=True, excluded=["precision"])


def test_no_trial_starts_after_the_time_is_used_up(search: Harness) -> None:
    runner = SimulatedRunner()
    result = search(runner, timeout_s=1e-9, trials=20)
    assert len(runner.asked) == 1
    assert result.search.stopped_because == "the time is used up"
    assert (
        "a trial of the baseline takes 5 s; 20 like it about 2 min, and --timeout has room for 1"
        in search.listener.notes
    )


def test_how_long_a_search_takes_is_not_told_after_a_baseline_that_was_not_measured(search: Harness) -> None:
    runner = SimulatedRunner(host_bytes=lambda config: config["batch_size"] * MIB)
    search(runner, baseline={"batch_size": 256}, host_memory_limit_bytes=100 * MIB, trials=6)
    assert not [note for note in search.listener.notes if "a trial of the baseline takes" in note]


def test_two_answers_are_emitted_and_say_what_they_change(search: Harness) -> None:
    result = search(SimulatedRunner(), trials=16)
    best, same = Config.load(search.folder.best), Config.load(search.folder.best_same_batch)
    assert best["batch_size"] != 32
    assert same["batch_size"] == 32
    assert [answer.config for answer in result.answers] == [result.best, result.answers[1].config]
    notes = " ".join(read_document(search.folder.best)["notes"]["lines"])
    assert "Goyal" in notes
    assert "Precision fp32 -> bf16" in notes
    status = read_document(search.folder.best)["measured"]["status"]
    assert "not verified" in status


def test_no_answer_from_before_a_resume_is_left_where_it_no_longer_holds(search: Harness) -> None:
    """Batches of another size look faster until the search is cut, and do not once it goes on."""

    def seconds(same: float) -> Callable[[Mapping[str, Any]], float]:
        return lambda config: 1e-3 * (same if config["batch_size"] == 32 else 1.0)

    cut = SimulatedRunner(seconds=seconds(2.0), rule=lambda spec: KeyboardInterrupt() if spec.number == 9 else None)
    assert len(search(cut, trials=10).answers) == 2
    assert search.folder.best_same_batch.exists()
    search(SimulatedRunner(seconds=seconds(0.1)), trials=16, resume=True)
    assert Config.load(search.folder.best)["batch_size"] == 32
    assert not search.folder.best_same_batch.exists()
    assert [answer.path for answer in gather(read_run(search.folder)).answers] == [search.folder.best]


@pytest.mark.parametrize("sampler", ["structured", "random"])
@pytest.mark.parametrize("today", [32, 50])
def test_c56_trials_are_kept_for_the_second_answer(search: Harness, sampler: str, today: int) -> None:
    """The winner's other options at the baseline's batch, though no sampler came upon them; off the grid too."""
    runner = SimulatedRunner(noise=0.0)
    result = search(runner, trials=14, sampler=sampler, baseline={"batch_size": today})
    assert len(runner.configs) <= 14
    best, same = (answer.config for answer in result.answers)
    assert best["batch_size"] != today
    assert same["batch_size"] == today
    assert same != result.search.baseline.config
    counterpart = result.search.space.canonical(best.replace(batch_size=today))
    assert counterpart in result.search.measured
    assert (result.search.measured[same].sample_s or 9) <= (result.search.measured[counterpart].sample_s or 0)


def test_no_trial_for_the_second_answer_is_lost_to_memory(
    search: Harness,
) -> None:
    def host_bytes(config: Mapping[str, Any]) -> int:
        return (300 + 6 * config["batch_size"] * (1 + config.get("num_workers", 0))) * MIB

    runner = SimulatedRunner(
        host_bytes=host_bytes,
        seconds=lambda config: 1e-3 * (1.0 + config["batch_size"] / 500) / (1 + min(2, config.get("num_workers", 0))),
    )
    result = search(runner, trials=20, host_memory_limit_bytes=600 * MIB)
    assert result.best["batch_size"] < 32
    assert result.best["num_workers"]
    lost = [config for config in runner.configs[5:] if host_bytes(config) > 600 * MIB]
    assert not lost


@pytest.mark.parametrize(
    "wishes", [{"keep_batch": True}, {"effective_batch": 64}, {"restricted": {"batch_size": [64, 128]}}]
)
def test_c56_where_the_user_says_what_the_batch_is_there_is_one_answer(search: Harness, wishes: Any) -> None:
    runner = SimulatedRunner()
    result = search(runner, trials=10, **wishes)
    assert len(result.answers) == 1
    rest = [config for config in runner.configs if config != runner.configs[0]]
    if "keep_batch" in wishes:
        assert {config["batch_size"] for config in rest} == {32}
    elif "effective_batch" in wishes:
        assert {config["batch_size"] * config["accumulation"] for config in rest} == {64}
        assert {config["batch_size"] for config in rest} > {64}
    else:
        assert {config["batch_size"] for config in rest} <= {64, 128}


def test_values_that_differ_from_the_script_are_written_even_where_they_are_defaults(search: Harness) -> None:
    # loading in the process is PyTorch's default, yet the script says otherwise: the file must say it
    hangs = SimulatedRunner(rule=lambda spec: Outcome.TIMEOUT if spec.config.get("num_workers") else None)
    search(hangs, baseline={"batch_size": 32, "num_workers": 2}, trials=8)
    assert Config.load(search.folder.best)["num_workers"] == 0


def test_a_verified_search_claims_and_says_what_each_option_gives(search: Harness) -> None:
    result = search(SimulatedRunner(noise=0.005), trials=14, verify="full")
    assert "faster per sample than your baseline" in result.answers[0].sentence
    document = read_document(search.folder.best)
    assert document["measured"]["verdict"] == "faster"
    assert document["measured"]["interval"][0] > 1
    assert "x (95 % CI" in search.folder.best.read_text().split("[measured]")[0]
    assert search.folder.verification.exists()
    assert {record.kind for record in search.folder.records()} == {
        "baseline",
        "replicate",
        "trial",
        "verification",
        "numerics",
    }


def test_the_memory_of_a_config_that_options_were_taken_back_from_is_that_of_its_windows(search: Harness) -> None:
    """It was no trial of the search; and a window may need more than the trial before it did."""
    later = 50 * MIB

    def host_bytes(config: Mapping[str, Any]) -> int:
        return (100 + config["batch_size"]) * MIB + (later if len(search.listener.labels) > 14 else 0)

    runner = SimulatedRunner(noise=0.005, host_bytes=host_bytes)
    result = search(runner, trials=14, verify="full", seed=1)
    assert any(answer.confirmation is not None for answer in result.answers)
    for answer, path in zip(result.answers, (search.folder.best, search.folder.best_same_batch), strict=False):
        measured = read_document(path)["measured"]
        needed = (100 + answer.config["batch_size"]) * MIB + later
        assert (measured["config_peak_bytes"], measured["margin_bytes"]) == (needed, GIB - needed)
        assert measured["baseline_peak_bytes"] == 132 * MIB + later


def test_a_search_that_was_not_verified_is_verified_when_it_is_resumed(search: Harness) -> None:
    search(SimulatedRunner(noise=0.005), trials=8)
    again = SimulatedRunner(noise=0.005)
    result = search(again, trials=8, resume=True, verify="quick")
    assert again.configs == []
    assert "faster per sample than your baseline" in result.answers[0].sentence


def test_a_verification_of_equals_claims_nothing(search: Harness) -> None:
    flat = SimulatedRunner(noise=0.01)
    flat._answer = _equal(flat)  # type: ignore[method-assign]
    result = search(flat, trials=10, verify="quick")
    assert all("faster" not in answer.sentence for answer in result.answers)
    assert result.best == result.search.space.baseline
    # the verdict is of another config than the file's
    status = read_document(search.folder.best)["measured"]["status"]
    assert str(status).startswith("what you run today; the best config found beside it: no measurable difference")


@pytest.mark.parametrize(("rival_s", "kept"), [(1.5e-3, True), (0.5e-3, False)])
def test_what_seemed_slower_is_no_answer_where_nothing_is_proven(search: Harness, rival_s: float, kept: bool) -> None:
    """Other programs disturb every measurement."""
    runner = SimulatedRunner()

    def answer(spec: TrialSpec) -> TrialRecord:
        today = spec.config["batch_size"] == 32 and spec.config["precision"] == "fp32"
        found = measurement(spec.config, 1e-3 if today else rival_s, 100 * MIB, ("cpu_contended_hard",))
        return TrialRecord(
            number=spec.number, kind=spec.kind, config=spec.config, outcome=Outcome.OK, measurement=found, wall_s=5.0
        )

    runner._answer = answer  # type: ignore[method-assign]
    beside = {name: False for name in ("channels_last", "drop_last")} | {"num_workers": 0, "num_threads": 0}
    result = search(runner, trials=6, verify="quick", fixed=beside)
    assert result.answers[0].sentence.startswith("inconclusive: ")
    assert (result.best == result.search.space.baseline) == kept


@pytest.mark.parametrize("script_facts", [None, ScriptFacts(loader=0, made_at="train.py:9")])
def test_a_baseline_is_left_out_where_it_is_ours_to_apply(search: Harness, script_facts: ScriptFacts | None) -> None:
    """An argument that a script gives its own DataLoader stays there."""
    facts = dataclasses.replace(FACTS, baseline={"batch_size": 32, "pin_memory": True}, script=script_facts)
    search(SimulatedRunner(facts=facts), trials=2)
    said = "the baseline's pin_memory = True is left out: there is no accelerator to copy to"
    assert (said in search.listener.title) == (script_facts is None)


def _equal(runner: SimulatedRunner) -> Any:
    def answer(spec: TrialSpec) -> TrialRecord:
        found = measurement(spec.config, 1e-3 * (1 + 0.001 * (spec.number % 3)), 100 * MIB)
        return TrialRecord(
            number=spec.number, kind=spec.kind, config=spec.config, outcome=Outcome.OK, measurement=found
        )

    return answer


@pytest.mark.parametrize(("length", "max_batch"), [(2000, 4), (5, None), (1, None), (2000, 2)])
def test_a_search_with_no_batch_size_on_the_ladder_searches_the_rest(
    search: Harness, length: int, max_batch: int | None
) -> None:
    facts = dataclasses.replace(FACTS, dataset_length=length, baseline={"batch_size": min(length, 4)})
    result = search(SimulatedRunner(facts=facts), trials=5, max_batch=max_batch)
    assert result.best is not None
    assert result.best["batch_size"] == min(length, 4)
