"""Signs of other users of the machine."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from autotune.measure import contention
from autotune.measure.contention import Reading, family, flags_between

CORES = 8.0
QUIET = Reading(at_s=0.0, run_delay_s=0.0, own_cpu_s=0.0, busy_cpu_s=0.0, disk_bytes=0, swapped_in=0, throttled=0)
BUSY_LOOP = "import time\nend = time.time() + 20\nwhile time.time() < end: pass"


@pytest.mark.parametrize(
    ("changes", "flags"),
    [
        ({}, []),
        ({"run_delay_s": 2.0, "busy_cpu_s": 9.0, "own_cpu_s": 5.0}, ["cpu_contended"]),
        ({"run_delay_s": 4.0, "busy_cpu_s": 9.0, "own_cpu_s": 5.0}, ["cpu_contended_hard"]),
        ({"run_delay_s": 4.0, "busy_cpu_s": 9.0, "own_cpu_s": 9.0}, []),  # our own workers took the core
        ({"run_delay_s": 0.5, "busy_cpu_s": 9.0, "own_cpu_s": 5.0}, []),
        ({"throttled": 3}, ["cpu_quota_throttled"]),
        ({"swapped_in": 1}, ["swapping"]),
        ({"disk_bytes": 1 << 19}, []),
        ({"disk_bytes": 1 << 22}, ["disk_reads"]),
    ],
)
def test_what_each_counter_says(changes, flags):
    assert flags_between(QUIET, replace(QUIET, at_s=10.0, **changes), threads=4, cores=CORES) == flags


def test_c30_more_threads_than_cores_are_said():
    assert flags_between(QUIET, replace(QUIET, at_s=10.0), threads=9, cores=CORES) == ["oversubscribed"]


def test_c10_neighbours_that_take_the_cores_are_seen():
    """Pitfall 15: busy loops of somebody else, two a core."""
    cores = len(os.sched_getaffinity(0))
    # started by a shell that ends at once: they are nobody's workers
    command = f'for i in $(seq {2 * cores}); do "{sys.executable}" -c "$0" >/dev/null 2>&1 & echo $!; done'
    started = subprocess.run(["sh", "-c", command, BUSY_LOOP], capture_output=True, text=True, check=True)
    pids = [int(pid) for pid in started.stdout.split()]
    try:
        time.sleep(0.3)
        before = Reading.take(family())
        end = time.perf_counter() + 2.0
        while time.perf_counter() < end:
            pass
        flags = flags_between(before, Reading.take(family()), threads=1, cores=cores)
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
    assert {"cpu_contended", "cpu_contended_hard"} & set(flags)


def test_every_probe_may_be_missing(monkeypatch, tmp_path):
    monkeypatch.setattr(contention, "PROC", tmp_path)
    monkeypatch.setattr(contention, "throttle_count", lambda: 0)
    reading = Reading.take(family())
    assert replace(reading, at_s=0.0) == QUIET
    assert flags_between(reading, Reading.take(family()), threads=1, cores=CORES) == []


def put_process(proc, pid, *, used_s, waited_for_s=0):
    """Write the CPU times of a process and of the children that it waited for, half of each in the kernel."""
    halves = [round(seconds * contention.TICKS_PER_S / 2) for seconds in (used_s, used_s, waited_for_s, waited_for_s)]
    (proc / str(pid)).mkdir(exist_ok=True)
    (proc / str(pid) / "stat").write_text(f"{pid} (a (worker) S {'0 ' * 10}{' '.join(map(str, halves))} 20 0\n")


def put_machine(proc, busy_s):
    (proc / "stat").write_text(f"cpu {round(busy_s * contention.TICKS_PER_S)} 0 0 0 0 0 0 0 0 0\n")
    (proc / "self").mkdir(exist_ok=True)
    (proc / "self/schedstat").write_text(f"0 {round(busy_s * 1e9)} 0\n")


def test_workers_that_ended_in_the_window_are_no_foreign_work(monkeypatch, tmp_path):
    """Of an epoch that ended, and of one that began and ended meanwhile; those of the running one are alive."""
    monkeypatch.setattr(contention, "PROC", tmp_path)
    monkeypatch.setattr(contention, "throttle_count", lambda: 0)
    put_machine(tmp_path, busy_s=100)
    put_process(tmp_path, 1, used_s=50, waited_for_s=3)
    put_process(tmp_path, 2, used_s=6)
    before = Reading.take([1, 2])
    put_machine(tmp_path, busy_s=116)
    put_process(tmp_path, 1, used_s=54, waited_for_s=3 + (6 + 2) + 7)
    shutil.rmtree(tmp_path / "2")
    put_process(tmp_path, 4, used_s=3)
    after = Reading.take([1, 4])
    assert after.own_cpu_s - before.own_cpu_s == pytest.approx(16)
    spread = replace(after, at_s=before.at_s + 10)
    assert flags_between(before, spread, threads=1, cores=CORES) == []
