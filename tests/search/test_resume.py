"""What ties a study to its search, and a resumed search to the memory that its trials were allowed."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import optuna
import pytest

from autotune.errors import RunFolderError, UsageError
from autotune.machine import Machine
from autotune.records import NOT_SCREENING, Limits
from autotune.search.info import read_info
from autotune.search.setup import GIB, Wishes, _limits
from tests.search.simulated import FACTS, SimulatedRunner
from tests.search.test_search import COMPILER, Harness


def harness(tmp_path: Path, name: str, out: str = "") -> Harness:
    script = tmp_path / f"{name}.py"
    script.write_text("x = 1\n")
    return Harness(script, tmp_path / (out or name))


def trials_in(search: Harness) -> int:
    return sum(1 for record in search.folder.records() if record.kind not in NOT_SCREENING)


@pytest.fixture
def storage(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/shared.db"


def test_two_workloads_in_one_storage_know_nothing_of_each_other(tmp_path: Path, storage: str) -> None:
    alone, beside = SimulatedRunner(), SimulatedRunner()
    harness(tmp_path, "b", "alone")(alone, trials=6)
    harness(tmp_path, "a")(SimulatedRunner(), trials=5, storage=storage)
    harness(tmp_path, "b")(beside, trials=6, storage=storage)
    assert beside.configs == alone.configs
    names = optuna.get_all_study_names(storage)
    assert sorted(name.split(" (")[0] for name in names) == ["a.py on simulated", "b.py on simulated"]


def test_the_same_search_again_is_refused_or_begins_anew(tmp_path: Path, storage: str) -> None:
    first, again = SimulatedRunner(), SimulatedRunner()
    harness(tmp_path, "a")(first, trials=5, storage=storage)
    with pytest.raises(RunFolderError, match="holds an earlier search of the same workload") as caught:
        harness(tmp_path, "a", "other")(again, trials=5, storage=storage)
    assert "--force" in (caught.value.hint or "")
    assert not (tmp_path / "other" / "run.json").exists()
    harness(tmp_path, "a")(again, trials=5, storage=storage, force=True)
    assert again.configs == first.configs
    (name,) = optuna.get_all_study_names(storage)
    assert len(optuna.load_study(study_name=name, storage=storage).trials) == 5


def test_a_search_in_a_named_storage_is_resumed(tmp_path: Path, storage: str) -> None:
    search, rest = harness(tmp_path, "a"), SimulatedRunner()
    search(SimulatedRunner(), trials=4, storage=storage)
    began = read_info(search.folder).started_at
    search(rest, trials=6, storage=storage, resume=True)
    assert len(rest.configs) == 2
    assert read_info(search.folder).started_at == began  # the trials are of then
    assert "resumed with 4 trials measured before" in search.listener.notes


def test_going_on_and_beginning_anew_are_not_asked_for_at_once(tmp_path: Path) -> None:
    search = harness(tmp_path, "a")
    search(SimulatedRunner(), trials=4)
    with pytest.raises(UsageError, match="--resume goes on with the search in the folder, --force replaces it"):
        search(SimulatedRunner(), trials=6, resume=True, force=True)
    assert trials_in(search) == 4


def test_beginning_anew_removes_what_a_search_wrote_and_nothing_else(tmp_path: Path) -> None:
    search = harness(tmp_path, "a")
    search.folder.trials.mkdir(parents=True)
    mine = [search.folder.trials / name for name in ("data.csv", "notes.json", "12.log")]
    for path in mine:
        path.write_text("mine")
    (search.folder.trials / "old.scratch").mkdir()
    search(SimulatedRunner(), trials=6, force=True)
    assert (search.folder.trials / "old.scratch").exists()  # of no search of ours
    search(SimulatedRunner(), trials=4, force=True)
    assert trials_in(search) == 4
    assert [path.read_text() for path in mine] == ["mine"] * 3


def test_the_pace_that_a_probe_measures_changes_no_choices_on_resume(tmp_path: Path) -> None:
    """Whether compiling is worth it follows from how long the planned training takes."""
    search = harness(tmp_path, "a")
    slow = dataclasses.replace(COMPILER, sample_compute_s=1.0)
    search(SimulatedRunner(facts=slow), trials=14, steps=20)
    assert "compile_mode" in search(SimulatedRunner(facts=slow), trials=15, steps=20, resume=True).search.space.choices
    fast = dataclasses.replace(COMPILER, sample_compute_s=1e-4)
    again = search(SimulatedRunner(facts=fast), trials=16, steps=20, resume=True)
    assert "compile_mode" in again.search.space.choices


WISHES = [("timeout_s", 1e300), ("trials", 10**15), ("epochs", float("inf")), ("max_batch", 10**19), ("seed", 10**20)]


@pytest.mark.parametrize(("name", "value"), WISHES)
def test_numbers_that_nobody_means_are_refused_before_anything_runs(name: str, value: float) -> None:
    with pytest.raises(UsageError, match=f"--{name.removesuffix('_s').replace('_', '-')} .* is out of range"):
        Wishes(**{name: value})


def test_a_resumed_search_keeps_its_limits_or_says_why_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    search, read = harness(tmp_path, "a"), Machine.read

    def free(available: float) -> None:
        changed = dataclasses.replace(read(), available_bytes=int(available * GIB))
        monkeypatch.setattr(Machine, "read", lambda: changed)

    def allowed(trials: int, **flow: Any) -> set[int]:
        runner = SimulatedRunner()
        search(runner, trials=trials, host_memory_limit_bytes=None, **flow)
        return {spec.limits.host_bytes for spec in runner.asked}

    free(10)
    assert allowed(3) == {8 * GIB}
    for available in (9, 40):  # 80 % of which would be another limit
        free(available)
        assert allowed(4, resume=True) <= {8 * GIB}
    free(5)
    with pytest.raises(UsageError, match=r"allowed 8\.00 GiB of host memory, and 5\.00 GiB are free now") as caught:
        search(SimulatedRunner(), trials=6, host_memory_limit_bytes=None, resume=True)
    assert caught.value.hint == "Free the memory, or start anew with --force."


def test_the_same_holds_for_the_memory_of_a_device() -> None:
    machine: Any = SimpleNamespace(available_bytes=100 * GIB)
    wishes = Wishes(limits=Limits(host_bytes=40 * GIB, device_bytes=60 * GIB))
    facts = dataclasses.replace(FACTS, device="cuda:0", device_free_bytes=62 * GIB)
    assert _limits(wishes, machine, facts).device_bytes == 60 * GIB
    facts = dataclasses.replace(facts, device_free_bytes=50 * GIB)
    with pytest.raises(UsageError, match=r"60\.00 GiB of device memory, and 50\.00 GiB"):
        _limits(wishes, machine, facts)


@pytest.mark.parametrize("batch_size", [4, 10, 32, 50, 100])
def test_latency_measures_the_baselines_batch_size_whatever_the_grid(tmp_path: Path, batch_size: int) -> None:
    runner = SimulatedRunner()
    result = harness(tmp_path, "a")(runner, trials=8, objective="latency", baseline={"batch_size": batch_size})
    assert {config["batch_size"] for config in runner.configs} == {batch_size}
    assert len({tuple(config.items()) for config in runner.configs}) == 7
    assert result.best != result.prepared.space.baseline


def test_latency_of_another_batch_size_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="baseline's batch size, which is 32, not 64"):
        harness(tmp_path, "a")(SimulatedRunner(), objective="latency", fixed={"batch_size": 64})
