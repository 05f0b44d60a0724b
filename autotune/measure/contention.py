"""Signs that something else used the machine while a window was measured. They flag; they never correct."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from autotune.measure.memory import workers

PROC = Path("/proc")
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
RUN_DELAY_SHARE = 0.10  # of the wall time a runnable thread waited for a core; idle noise is about 0.03
HARD_RUN_DELAY_SHARE = 0.30
FOREIGN_CORES = 0.25  # cores used by others below which a run delay is our own doing
MIN_DISK_BYTES = 1 << 20


@dataclass(frozen=True)
class Reading:
    """Counters at one moment."""

    at_s: float
    run_delay_s: float
    """that this process's threads waited for a core"""
    own_cpu_s: float
    """of this process and its children"""
    busy_cpu_s: float
    """of all processes of the machine"""
    disk_bytes: int
    """read from storage by this process and its children"""
    swapped_in: int
    throttled: int
    """times that the cgroup's CPU quota stopped it"""

    @classmethod
    def take(cls, pids: Sequence[int]) -> Reading:
        """Read the counters now: of the machine, and of the processes that are our own (see `family`)."""
        return cls(
            at_s=time.perf_counter(),
            run_delay_s=_run_delay_s(),
            own_cpu_s=sum(_cpu_s(pid) for pid in pids),
            busy_cpu_s=_busy_cpu_s(),
            disk_bytes=sum(_number_after(PROC / str(pid) / "io", "read_bytes:") for pid in pids),
            swapped_in=_number_after(PROC / "vmstat", "pswpin"),
            throttled=_number_after(_cgroup_file(), "nr_throttled"),
        )


def family() -> list[int]:
    """Return the processes of this trial; walking all processes of the machine takes a while."""
    return [os.getpid(), *(process.pid for process in workers())]


def flags_between(before: Reading, after: Reading, threads: float, cores: float) -> list[str]:
    """Return the flags that two readings around a window call for.

    Args:
        threads: compute threads plus loader workers of the trial.
        cores: usable cores.
    """
    wall = max(after.at_s - before.at_s, 1e-9)
    delay = (after.run_delay_s - before.run_delay_s) / wall
    foreign = (after.busy_cpu_s - before.busy_cpu_s - (after.own_cpu_s - before.own_cpu_s)) / wall
    flags = []
    if delay > RUN_DELAY_SHARE and foreign > FOREIGN_CORES:
        flags.append("cpu_contended_hard" if delay > HARD_RUN_DELAY_SHARE else "cpu_contended")
    if threads > cores:
        flags.append("oversubscribed")
    if after.throttled > before.throttled:
        flags.append("cpu_quota_throttled")
    if after.swapped_in > before.swapped_in:
        flags.append("swapping")
    if after.disk_bytes - before.disk_bytes > MIN_DISK_BYTES:
        flags.append("disk_reads")
    return flags


def _run_delay_s() -> float:
    """Return what the main thread waited for a core: with helpers waiting at barriers a sum would count twice."""
    text = _text(PROC / "self/schedstat").split()
    return int(text[1]) / 1e9 if len(text) == 3 else 0.0


def _cpu_s(pid: int) -> float:
    fields = _text(PROC / str(pid) / "stat").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S if len(fields) > 12 else 0.0


def _busy_cpu_s() -> float:
    fields = _text(PROC / "stat").partition("\n")[0].split()[1:]
    counted = [int(field) for field in fields[:8]]  # user nice system idle iowait irq softirq steal
    return (sum(counted) - counted[3] - counted[4]) / TICKS_PER_S if len(counted) == 8 else 0.0


def _cgroup_file() -> Path:
    root = Path("/sys/fs/cgroup")
    return next((path for path in (root / "cpu.stat", root / "cpu/cpu.stat") if path.exists()), root / "none")


def _number_after(path: Path, key: str) -> int:
    return next(iter(_numbers(_text(path).splitlines(), key)), 0)


def _numbers(lines: Iterable[str], key: str) -> Iterable[int]:
    return (int(line.split()[1]) for line in lines if line.split()[:1] == [key])


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
