"""The steering process is killed at any moment, and resumed: nothing lost, nothing twice, nothing left."""

from __future__ import annotations

import dataclasses
import os
import random
import signal
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from autotune.config import read_document
from autotune.records import Outcome, Source, TrialRecord, TrialSpec
from autotune.search.run import search_workload
from autotune.search.setup import Wishes
from autotune.trials.folder import RunFolder
from autotune.trials.replay import ReplayRunner
from tests.faults.steering import EXCLUDED, Steered, kill_at, wait_for_records
from tests.search.simulated import Listener, SimulatedRunner

HOW = ("SIGKILL", "SIGTERM", "SIGINT", "terminal")


def answer_of_an_undisturbed_search(steered: Steered, trials: int) -> dict[str, Any]:
    """Search again over what the killed one recorded, in one go; return the options that it emits."""
    probe = dataclasses.replace(
        next(iter(steered.records().values())), kind="probe", facts=steered.info().facts, measurement=None
    )
    limits = steered.info().limits
    wishes = Wishes(
        trials=trials, host_memory_limit_bytes=limits.host_bytes, headroom=0.0, max_batch=128, target=0.05,
        trial_budget_s=1, excluded=EXCLUDED,
    )  # fmt: skip
    folder = RunFolder(steered.home / "undisturbed")
    source = Source(script=str(steered.home / "train.py"))
    recorded = [record for record in steered.records().values() if record.outcome is not Outcome.UNSUPPORTED]
    runner = ReplayRunner([probe, *recorded])
    search_workload(source, folder, wishes, Listener(), verify="none", runner=runner)
    assert len([spec for spec in runner.asked if spec.kind not in ("probe", "numerics")]) == len(recorded)
    return read_document(folder.best)["options"]


def killed_again_and_again(
    home: Path, delays: list[tuple[float, str]], trials: int, *, in_trials: bool = False
) -> None:
    """Kill a search after each delay, finish it, and compare; `in_trials`: each time once it has measured one more."""
    steered = Steered(home, "--trials", trials)
    before: dict[int, TrialRecord] = {}
    for delay_s, how in delays:
        now = kill_at(steered, delay_s, how, records=len(before) + 1 if in_trials else 0)
        assert before.keys() <= now.keys()
        before = now
    out = steered.finish()
    steered.check_nothing_is_left()
    steered.check_the_study(before, trials)
    assert "best.toml" in out
    assert read_document(steered.folder.best)["options"] == answer_of_an_undisturbed_search(steered, trials)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("ways", "trials"), [pytest.param(HOW[:1], 3, id="once"), pytest.param(HOW, 6, marks=pytest.mark.slow)]
)
def test_killed_in_the_middle_of_trials(tmp_path, ways, trials):
    """The fast form: one moment of one way to end."""
    rng = random.Random(4)
    killed_again_and_again(tmp_path, [(rng.uniform(0, 3), how) for how in ways], trials=trials, in_trials=True)


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("part", range(5))
def test_killed_at_fifty_random_moments(tmp_path, part):
    rng = random.Random(part)
    moments = [(rng.uniform(0.1, 12), rng.choice(HOW)) for _ in range(10)]
    killed_again_and_again(tmp_path, moments, trials=12)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_closed_terminal_does_not_end_a_search_under_nohup(tmp_path):
    def as_nohup_does() -> None:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    steered = Steered(tmp_path, "--trials", 3)
    process = steered.start(preexec_fn=as_nohup_does)
    wait_for_records(steered, 1)
    process.send_signal(signal.SIGHUP)
    out = process.communicate(timeout=240)[0].decode()
    assert process.returncode == 0, out
    assert len(steered.records()) >= 3


class Slow(SimulatedRunner):
    """A tenth of a second a trial, half of it after the record is on disk."""

    def run(self, spec: TrialSpec, *rest: Any) -> TrialRecord:
        time.sleep(0.01)
        record = super().run(spec, *rest)
        time.sleep(0.01)
        return record


@pytest.mark.parametrize("moments", [15, pytest.param(50, marks=pytest.mark.slow)])
def test_killed_at_many_moments_between_record_and_study(tmp_path, moments):
    """What is on disk at each moment suffices: the same trials as of a search that nothing disturbed."""
    (tmp_path / "train.py").write_text("x = 1\n")
    rng = random.Random(50)

    def search(name: str, runner: SimulatedRunner, **flow: Any) -> Any:
        wishes = Wishes(trials=14, host_memory_limit_bytes=1 << 30, headroom=0.0, sampler="random")
        source, folder = Source(script=str(tmp_path / "train.py")), RunFolder(tmp_path / name)
        return search_workload(source, folder, wishes, Listener(), verify="none", runner=runner, **flow)

    undisturbed = SimulatedRunner()
    best = search("undisturbed", undisturbed).best
    folder = RunFolder(tmp_path / "killed")
    lost: set[int] = set()
    for _ in range(moments):
        pid = os.fork()
        if pid == 0:
            try:
                search("killed", Slow(), resume=folder.exists)
            finally:
                os._exit(0)
        time.sleep(rng.uniform(0.0, 0.5))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        records = {record.number for record in folder.records()} if folder.trials.is_dir() else set()
        assert lost <= records
        lost = records
    result = search("killed", SimulatedRunner(), resume=True)
    numbers = [record.number for record in folder.records()]
    assert len(numbers) == len(set(numbers)) >= 14
    assert result.search.resume() >= 0
    steered = Steered(tmp_path)
    steered.folder = folder
    steered.check_the_study({}, 14)
    assert best is not None
    assert result.best is not None


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("part", ["trial", "loader worker", "fork server"])
def test_a_killed_part_is_an_outcome_and_the_search_goes_on(tmp_path, part):
    steered = Steered(tmp_path, "--trials", 4)
    process = steered.start()
    wait_for_records(steered, 1)
    victim = wait_for_part(process.pid, part)
    os.kill(victim, signal.SIGKILL)
    out = process.communicate(timeout=240)[0].decode()
    assert process.returncode == 0, out
    steered.check_nothing_is_left()
    steered.check_the_study({}, 4)
    failures = [record for record in steered.records().values() if record.failure is not None]
    # the worker or trial may have been at its very end: then it is none
    assert len(failures) <= 1
    if part == "fork server":
        assert {record.failure.reason for record in failures if record.failure} <= {"the fork server ended"}


def wait_for_part(pid: int, part: str) -> int:
    """Return the pid of the running trial, a loader worker of it, or the fork server."""
    deadline = time.monotonic() + 120
    depth = {"fork server": 1, "trial": 2, "loader worker": 3}[part]
    while time.monotonic() < deadline:
        try:
            generation = [psutil.Process(pid)]
            for _ in range(depth):
                generation = [child for parent in generation for child in parent.children()]
            if part == "fork server":  # while a trial runs, so that it is missed
                generation = [server for server in generation if server.children()]
            if generation:
                return generation[0].pid
        except psutil.Error:
            pass
        time.sleep(0.02)
    raise AssertionError(f"no {part} was seen")
