"""The guard's place in a search: who is demoted, who takes the place, and what people are told."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from autotune.config import Config, read_document
from autotune.errors import UsageError
from autotune.numerics import Comparison, Figure, Numerics, Status
from autotune.records import Outcome, Source, TrialSpec
from autotune.search.check import verify_config
from autotune.search.run import Result, search_workload
from autotune.search.setup import Wishes
from autotune.trials.folder import RunFolder
from tests.search.simulated import Listener, SimulatedRunner

GIB = 1 << 30
BROKEN = "the gradient of weight points elsewhere: cosine 0.3, less than 0.99"


def bf16_fails(spec: TrialSpec) -> Numerics:
    if spec.config.get("precision") == "bf16":
        return Numerics(status=Status.FAILED, reason=BROKEN)
    return passed()


def passed() -> Numerics:
    found = Comparison(
        claim="exact", options={"channels_last": True}, gradient_error=Figure(value=1e-6, parameter="w"), changed=1
    )
    return Numerics(status=Status.PASSED, reference="float64", steps=4, with_gradient=1, comparisons=(found,))


class Told:
    """A search over the make-believe workload, with all that it said."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.listener = RunFolder(folder / "run"), Listener()
        self.script = folder / "train.py"
        self.script.write_text("x = 1\n")

    def __call__(self, runner: SimulatedRunner, verify: str, **wishes: object) -> Result:
        wanted = Wishes(**{"trials": 10, "host_memory_limit_bytes": GIB, "headroom": 0.0, **wishes})  # type: ignore[arg-type]
        source = Source(script=str(self.script))
        return search_workload(source, self.folder, wanted, self.listener, verify=verify, runner=runner)


@pytest.fixture
def search(tmp_path: Path) -> Told:
    return Told(tmp_path)


def checks(runner: SimulatedRunner) -> list[TrialSpec]:
    return [spec for spec in runner.asked if spec.kind == "numerics"]


@pytest.mark.parametrize("verify", ["none", "quick", "full"])
def test_a_config_that_fails_does_not_win_and_the_next_takes_its_place(search: Told, verify: str) -> None:
    runner = SimulatedRunner(noise=0.0, maths=bf16_fails)
    result = search(runner, verify, sampler="random", trials=16)
    assert any(config["precision"] == "bf16" for config in runner.configs)  # the fastest by far
    assert result.best is not None
    assert result.best["precision"] == "fp32"
    assert result.best != result.prepared.space.baseline
    assert all(answer.config["precision"] == "fp32" for answer in result.answers)
    windows = [spec for spec in runner.asked if spec.kind == "verification"]
    assert all(spec.config["precision"] == "fp32" for spec in windows)  # demoted before any window is spent on it
    demoted = [note for note in search.listener.notes if "is demoted" in note]
    assert demoted
    assert all("precision=bf16" in note and BROKEN in note and "=True" not in note for note in demoted)


def test_where_every_finalist_fails_they_are_verified_without_what_they_fail_by(search: Told) -> None:
    runner = SimulatedRunner(noise=0.0, maths=bf16_fails)
    result = search(runner, "quick", trials=5)  # after the baseline, all in bf16
    assert {config["precision"] for config in runner.configs[2:]} == {"bf16"}
    assert result.answers[0].config["precision"] == "fp32"
    assert result.answers[0].config != result.prepared.space.baseline
    assert "faster" in result.answers[0].sentence


def test_the_emitted_file_says_what_was_checked(search: Told) -> None:
    search(SimulatedRunner(noise=0.0, maths=lambda spec: passed()), "none")
    numerics = read_document(search.folder.best)["numerics"]
    assert numerics["status"] == "passed"
    assert numerics["exact_reference"] == "float64"
    assert numerics["exact"]["gradient_error"] == 1e-6
    assert numerics["exact"]["gradient_error_of"] == "w"


def test_one_trial_answers_for_all_configs_that_compute_alike(search: Told) -> None:
    runner = SimulatedRunner(noise=0.0, maths=lambda spec: passed())
    search(runner, "quick")
    asked = [tuple(sorted(spec.config.items())) for spec in checks(runner)]
    assert asked
    assert len(set(asked)) == len(asked)
    assert all(spec.config["batch_size"] == 32 for spec in checks(runner))  # the same samples as the baseline
    assert {record.kind for record in search.folder.records() if record.numerics} == {"numerics"}


def test_a_config_that_changes_loading_alone_needs_no_trial(search: Told) -> None:
    def loader_bound(config: object) -> float:
        return 1e-3 if config["num_workers"] else 5e-3  # type: ignore[index]

    runner = SimulatedRunner(noise=0.0, seconds=loader_bound)
    result = search(runner, "none", fixed={"precision": "fp32", "channels_last": False})
    assert checks(runner) == []
    assert result.answers[0].numerics is not None
    assert result.answers[0].numerics.status is Status.UNTOUCHED
    assert read_document(search.folder.best)["numerics"] == {"status": "untouched"}


@pytest.mark.parametrize("outcome", [Outcome.TIMEOUT, Outcome.CRASHED, Outcome.ERROR])
def test_a_check_that_ends_early_leaves_the_config_and_says_so(search: Told, outcome: Outcome) -> None:
    result = search(SimulatedRunner(noise=0.0, maths=lambda spec: outcome), "none")
    answer = result.answers[0]
    assert answer.config["precision"] == "bf16"
    assert answer.numerics is not None
    assert answer.numerics.status is Status.NOT_CHECKED
    assert f"planned {outcome.value}" in answer.numerics.sentence
    assert any("numerics not checked" in note for note in search.listener.notes)
    assert read_document(search.folder.best)["numerics"]["status"] == "not checked"


def test_out_of_memory_is_tried_again_without_float64(search: Told) -> None:
    def fits_in_float32(spec: TrialSpec) -> Numerics | Outcome:
        assert spec.numerics is not None
        return Outcome.OUT_OF_MEMORY if spec.numerics.float64 else passed()

    runner = SimulatedRunner(noise=0.0, maths=fits_in_float32)
    result = search(runner, "none")
    assert result.answers[0].numerics is not None
    assert result.answers[0].numerics.status is Status.PASSED
    tries = [spec.numerics.float64 for spec in checks(runner) if spec.numerics]
    assert tries[:2] == [True, False]


def test_nothing_that_passes_leaves_the_baseline(search: Told) -> None:
    def computes_alike(spec: TrialSpec) -> Numerics:
        return Numerics(status=Status.FAILED, reason=BROKEN)

    def only_maths_helps(config: object) -> float:
        changed = config["precision"] == "bf16" or config["channels_last"]  # type: ignore[index]
        return 1e-3 if changed else 2e-3 + 1e-4 * config["num_workers"] + 1e-5 * config["batch_size"]  # type: ignore[index]

    runner = SimulatedRunner(noise=0.0, maths=computes_alike, seconds=only_maths_helps)
    result = search(runner, "none", fixed={"batch_size": 32, "num_workers": 0, "num_threads": 0})
    assert result.best == result.prepared.space.baseline
    assert result.answers[0].numerics is None


def test_after_ctrl_c_nothing_more_is_run(search: Told) -> None:
    def interrupts(spec: TrialSpec) -> BaseException | None:
        return KeyboardInterrupt() if spec.number == 5 else None

    runner = SimulatedRunner(noise=0.0, rule=interrupts)
    result = search(runner, "quick")
    assert result.interrupted
    assert checks(runner) == []
    assert result.answers[0].numerics is not None
    assert "interrupted" in result.answers[0].numerics.sentence


def test_ctrl_c_in_the_verification_keeps_what_the_guard_found(search: Told) -> None:
    def interrupts(spec: TrialSpec) -> BaseException | None:
        return KeyboardInterrupt() if spec.kind == "verification" else None

    runner = SimulatedRunner(noise=0.0, rule=interrupts, maths=bf16_fails)
    result = search(runner, "quick", sampler="random", trials=16)
    assert result.interrupted
    assert checks(runner)
    assert all(answer.config["precision"] == "fp32" for answer in result.answers)


def test_ctrl_c_in_the_attribution_keeps_the_claim(search: Told) -> None:
    def interrupts(spec: TrialSpec) -> BaseException | None:
        return KeyboardInterrupt() if runner.asked and "attribute" in search.listener.labels[-1] else None

    runner = SimulatedRunner(noise=0.0, rule=interrupts)
    result = search(runner, "full")
    assert result.interrupted
    assert result.answers[0].claim is not None
    assert "faster" in str(read_document(search.folder.best)["measured"]["status"])  # type: ignore[index]


@pytest.mark.parametrize("verify", ["none", "full"])
def test_ctrl_c_while_the_guard_checks_at_the_end_keeps_the_answer(search: Told, verify: str) -> None:
    def reached(stage: str) -> bool:
        return any(stage in label for label in search.listener.labels)

    def interrupts(spec: TrialSpec) -> Outcome | BaseException | None:
        at_the_end = verify == "none" or reached("confirm")
        if spec.kind == "numerics" and at_the_end:
            return KeyboardInterrupt()
        half_alone = spec.config["precision"] == "bf16" and not spec.config["channels_last"]
        return Outcome.TIMEOUT if spec.kind == "trial" and half_alone else None  # no finalist: unknown to the guard

    def seconds(config: Mapping[str, Any]) -> float:
        helps = config["channels_last"] and not reached("attribute")  # so that it is taken back
        return (5e-4 if config["precision"] == "bf16" else 1e-3) * (0.9 if helps else 1.0)

    runner = SimulatedRunner(noise=0.0, rule=interrupts, seconds=seconds)
    result = search(runner, verify, sampler="random", trials=12, fixed={"batch_size": 32})
    assert result.interrupted
    assert result.best is not None
    assert (result.best["precision"], result.best["channels_last"]) == ("bf16", verify == "none")
    assert "interrupted" in str(read_document(search.folder.best)["numerics"])
    assert (result.answers[0].claim is None) == (verify == "none")


def test_no_time_left_is_no_pass(search: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    from autotune.search.guard import Guard

    ask: Callable[..., Numerics] = Guard._ask

    def late(self: Guard, config: object) -> Numerics:
        self._deadline = 0.0
        return ask(self, config)

    monkeypatch.setattr(Guard, "_ask", late)
    runner = SimulatedRunner(noise=0.0)
    result = search(runner, "none")
    assert checks(runner) == []
    assert result.answers[0].numerics is not None
    assert result.answers[0].numerics.short == "not checked: no time was left"


@pytest.mark.parametrize("status", [Status.PASSED, Status.FAILED])
def test_verify_checks_the_config_before_it_measures(search: Told, status: Status) -> None:
    answer = Numerics(status=status, reason=BROKEN if status is Status.FAILED else "")
    runner = SimulatedRunner(noise=0.01, maths=lambda spec: answer)
    search.folder.create()
    config = Config(batch_size=32, precision="bf16")
    source, wishes = Source(script=str(search.script)), Wishes(host_memory_limit_bytes=GIB)
    _, found = verify_config(source, config, search.folder, wishes, runner, search.listener, how="quick")
    assert found == answer
    assert [spec.kind for spec in runner.asked][:2] == ["numerics", "verification"]
    _, untested = verify_config(source, None, search.folder, wishes, runner, search.listener, how="quick")
    assert untested is None


@pytest.mark.parametrize("asked", [{"drop_last": True}, {"num_workers": 2, "multiprocessing_context": "fork"}])
def test_verify_measures_what_a_search_tries_only_where_it_is_asked_for(
    search: Told, asked: dict[str, bool | int | str]
) -> None:
    config = Config(batch_size=32, **asked)
    search.folder.create()
    source = Source(script=str(search.script))
    wishes = Wishes(host_memory_limit_bytes=GIB, allowed=frozenset(config))
    found, _ = verify_config(source, config, search.folder, wishes, SimulatedRunner(), search.listener, how="quick")
    assert asked.items() <= found.candidate.items()
    assert not asked.items() & found.baseline.items()


def test_verify_of_what_the_baseline_runs_names_the_way_to_another_config(search: Told) -> None:
    search.folder.create()
    source, wishes = Source(script=str(search.script)), Wishes(host_memory_limit_bytes=GIB)
    with pytest.raises(UsageError, match="nothing to compare") as refused:
        verify_config(source, Config(batch_size=32), search.folder, wishes, SimulatedRunner(), search.listener)
    assert "autotune show RUN TRIAL --out" in refused.value.hint
