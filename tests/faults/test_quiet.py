"""`--wait-idle`, and what the wait says."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from autotune.measure.contention import busy_cpu_s, throttle_count
from autotune.records import Limits, Outcome, Source, TrialRecord, TrialSpec
from autotune.trials import quiet
from autotune.trials.quiet import QuietRunner, disturbance

SPEC = TrialSpec(
    number=3,
    config={},
    baseline={},
    source=Source(),
    device="cpu",
    limits=Limits(host_bytes=1),
    record_path="nowhere",
)


class Runner:
    def __init__(self) -> None:
        self.ran = 0

    def run(self, spec, log, report=None):
        self.ran += 1
        return TrialRecord(number=spec.number, config={}, outcome=Outcome.OK)

    def close(self) -> None: ...


def wait(seen: list[str], patience_s: float) -> list[str]:
    """Run one trial on a machine that shows `seen` in turn, a look each second; return what was said."""
    told: list[str] = []
    looks = iter(seen)
    now = [0.0]

    def look(device: str) -> str:
        now[0] += 1
        return next(looks, "")

    runner = Runner()
    QuietRunner(runner, patience_s, told.append, look=look, clock=lambda: now[0]).run(SPEC, Path("log"))
    assert runner.ran == 1
    return told


def test_a_quiet_machine_is_not_waited_for():
    assert wait([], 60) == []


def test_the_wait_says_why_and_when_it_is_over():
    told = wait(["other programs use 1.3 cores"] * 4, 60)
    assert told == ["waiting up to 60 s for a quiet machine: other programs use 1.3 cores", "quiet after 5 s"]


def test_patience_ends_and_the_trial_is_measured_all_the_same():
    told = wait(["the card is busy (90 %)"] * 99, 7)
    assert len(told) == 2
    assert told[1].startswith("still not quiet after 7 s (the card is busy (90 %)): measured all the same")


def test_other_programs_on_our_cores_are_seen(monkeypatch):
    """Two busy loops for each core leave no doubt, whatever else runs here."""
    monkeypatch.setattr(quiet, "SAMPLE_S", 0.5)
    cores = len(os.sched_getaffinity(0))
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2 * cores)]
    try:
        assert "other programs use" in disturbance("cpu")
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def test_a_free_machine_is_quiet(monkeypatch):
    monkeypatch.setattr(quiet, "SAMPLE_S", 0.01)
    monkeypatch.setattr(quiet, "busy_cpu_s", lambda cpus: 7.0)
    assert disturbance("cpu") == ""


def test_the_cores_of_others_do_not_count():
    cpus = sorted(os.sched_getaffinity(0))
    before = [busy_cpu_s({cpu}) for cpu in cpus]
    end = time.process_time() + 0.3
    while time.process_time() < end:
        pass
    assert sum(busy_cpu_s({cpu}) for cpu in cpus) - sum(before) >= 0.2
    assert busy_cpu_s({10**6}) == 0.0
    assert busy_cpu_s() >= busy_cpu_s(cpus) > 0


def test_quota_throttling_is_counted_along_the_own_cgroups(tmp_path):
    """Version 2 and version 1; the group that has the quota may lie anywhere above the process."""
    for base, own in (("", "0::/user/job"), ("cpu", "3:cpu,cpuacct:/user/job")):
        root = tmp_path / (base or "unified")
        folder = (root / base if base else root) / "user/job"
        folder.mkdir(parents=True)
        (folder / "cpu.stat").write_text("nr_periods 9\nnr_throttled 2\nthrottled_usec 5\n")
        (folder.parent / "cpu.stat").write_text("nr_throttled 5\n")
        (folder.parent.parent / "elsewhere").mkdir()
        (folder.parent.parent / "elsewhere/cpu.stat").write_text("nr_throttled 100\n")
        assert throttle_count(root, own) == 7
    assert throttle_count(tmp_path / "none", "0::/") == 0
