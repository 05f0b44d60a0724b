"""Signs that something else used the machine while a window was measured. They flag; they never correct."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from autotune.machine import CGROUPS, cgroup_folders
from autotune.measure.memory import workers

PROC = Path("/proc")
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
RUN_DELAY_SHARE = 0.10  # of the wall time a runnable thread waited for a core; idle noise is about 0.03
HARD_RUN_DELAY_SHARE = 0.30
FOREIGN_CORES = 0.25  # cores used by others below which a run delay is our own doing
STOLEN_SHARE = 0.02  # of the cores' time that the host of a virtual machine gave to somebody else
MIN_DISK_BYTES = 1 << 20


@dataclass(frozen=True)
class Reading:
    """Counters at one moment."""

    at_s: float
    run_delay_s: float
    """that this process's threads waited for a core"""
    own_cpu_s: float
    """of this process and its children, those that ended among them"""
    busy_cpu_s: float
    """of all processes of the machine"""
    disk_bytes: int
    """read from storage by this process and its children; the kernel adds those that ended to their parent"""
    swapped_in: int
    throttled: int
    """times that the CPU quota of one of its cgroups stopped it"""
    stolen_s: float = 0.0
    """that the cores of this virtual machine were given to others by its host"""

    @classmethod
    def take(cls, pids: Sequence[int]) -> Reading:
        """Read the counters now: of the machine, and of the processes that are our own (see `family`)."""
        return cls(
            at_s=time.perf_counter(),
            run_delay_s=_run_delay_s(),
            own_cpu_s=sum(_cpu_s(pid) for pid in pids),
            busy_cpu_s=busy_cpu_s(),
            disk_bytes=sum(_number_after(PROC / str(pid) / "io", "read_bytes:") for pid in pids),
            swapped_in=_number_after(PROC / "vmstat", "pswpin"),
            throttled=throttle_count(),
            stolen_s=_stolen_s(),
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
    if after.stolen_s - before.stolen_s > STOLEN_SHARE * wall * cores:
        flags.append("cpu_stolen")
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
    """Return the CPU seconds of a process and of all that it waited for: ended workers count on in their parent."""
    fields = _text(PROC / str(pid) / "stat").rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / TICKS_PER_S if len(fields) > 14 else 0.0


def busy_cpu_s(cpus: Collection[int] | None = None) -> float:
    """Return the seconds that cores were busy since the machine started: those of `cpus`, or all."""
    wanted = {"cpu"} if cpus is None else {f"cpu{number}" for number in cpus}
    rows = (_cpu_times(line) for line in _text(PROC / "stat").splitlines() if line.split(" ", 1)[0] in wanted)
    return sum(sum(times) - times[3] - times[4] for times in rows if times) / TICKS_PER_S


def throttle_count(root: Path = CGROUPS, own_cgroups: str | None = None) -> int:
    """Return how often a CPU quota stopped this process: its cgroup's own, or one of those above it.

    The arguments are those of `machine.usable_cores`.
    """
    folders = cgroup_folders(root, own_cgroups, "cpu")
    return sum(_number_after(folder / "cpu.stat", "nr_throttled") for _, folder in folders)


def _stolen_s() -> float:
    times = _cpu_times(_text(PROC / "stat").partition("\n")[0])
    return times[7] / TICKS_PER_S if times else 0.0


def _cpu_times(line: str) -> list[int]:
    """Return user, nice, system, idle, iowait, irq, softirq and steal of a line of /proc/stat, in ticks."""
    counted = [int(field) for field in line.split()[1:9]]
    return counted if len(counted) == 8 else []


def _number_after(path: Path, key: str) -> int:
    return next(iter(_numbers(_text(path).splitlines(), key)), 0)


def _numbers(lines: Iterable[str], key: str) -> Iterable[int]:
    return (int(line.split()[1]) for line in lines if line.split()[:1] == [key])


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
