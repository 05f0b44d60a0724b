"""Peak memory of the training process and its loader workers on the host, from /proc.

Never ru_maxrss (a child inherits its parent's), never a sum of resident sizes (shared pages count twice).
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import psutil

PROC = Path("/proc")
RESET_PEAK = "5"  # proc(5), clear_refs: sets VmHWM back to the resident size of now


class HostMemory:
    """Host peaks of this process and its workers: since its begin and since the last reset."""

    def __init__(self) -> None:
        self._lifetime = 0
        self._tree_pss = 0

    def reset_peak(self) -> None:
        """Start the steady peak anew; the lifetime one is kept."""
        self._lifetime = max(self._lifetime, peak_rss())
        try:
            (PROC / "self/clear_refs").write_text(RESET_PEAK)
        except OSError:
            return  # not permitted here: the steady peak then equals the lifetime one, an upper bound

    def steady_peak(self) -> int:
        """Return bytes: the peak since the reset plus what the workers hold alone now."""
        return peak_rss() + sum(self.own_of_workers().values())

    def own_of_workers(self) -> dict[int, int]:
        """Return the bytes that each worker shares with no other process, by its number."""
        return {process.pid: own_bytes(process.pid) for process in workers()}

    def lifetime_peak(self, steady: int) -> int:
        """Return bytes: the peak since the process began, or `steady` where that is larger."""
        return max(self._lifetime, peak_rss(), steady)

    def sample_tree(self) -> int:
        """Take a sample of the tree's proportional size (some 10 ms a process) and return it."""
        total = tree_bytes(os.getpid(), [process.pid for process in workers()])
        self._tree_pss = max(self._tree_pss, total)
        return total

    @property
    def tree_pss(self) -> int:
        """Return the largest sample so far; 0: none was taken."""
        return self._tree_pss


def workers() -> list[psutil.Process]:
    """Return the processes started by this one, however deep."""
    return psutil.Process().children(recursive=True)


def peak_rss() -> int:
    """Return the peak resident size (VmHWM) of this process in bytes."""
    for line in (PROC / "self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def proportional_bytes(pid: int) -> int:
    """Return the proportional set size of a process; 0 where it is gone or cannot be read."""
    return _rollup(pid, ("Pss:",))


def tree_bytes(root: int, below: Iterable[int]) -> int:
    """Return what a process and those below it hold together; 0 where none can be read.

    A trial is forked from a server that has imported torch. Of each page that they share, the proportional sizes of
    the trial's processes leave out the server's part, which therefore comes back from there.
    """
    held = sum(proportional_bytes(pid) for pid in [root, *below])
    server = forked_from(root)
    return held + max(0, proportional_bytes(server) - own_bytes(server)) if held and server else held


def forked_from(pid: int) -> int:
    """Return the parent that a process shares its memory with, having started no program of its own; 0: it has none."""
    try:
        process = psutil.Process(pid)
        parent = process.parent()
        return parent.pid if parent is not None and parent.cmdline() == process.cmdline() else 0
    except psutil.Error:
        return 0


def own_bytes(pid: int) -> int:
    """Return the bytes that a process shares with no other; 0 where it is gone or cannot be read."""
    return _rollup(pid, ("Private_Clean:", "Private_Dirty:"))


def _rollup(pid: int, names: tuple[str, ...]) -> int:
    try:
        lines = (PROC / str(pid) / "smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(names))
