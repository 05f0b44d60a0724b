"""Limits of a trial, enforced from outside: time, host memory, size of its log."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil

from autotune.measure.memory import tree_bytes
from autotune.records import Failure, Limits, Outcome
from autotune.trials.gpu import GpuWatch, card_of

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
FAMILY_S = 0.5  # between two looks for new processes of the trial: walking /proc costs more than reading a size
CARD_S = 0.2  # between two looks at the accelerator: clocks fall and neighbours come within a window
MAX_LOG_BYTES = 16 << 20
LOG_GAP = b"\n... [autotune: the log grew too large, and what came here was dropped] ...\n"
GIB = 1 << 30


class Watchdog:
    """Watches one trial; each `verdict` is a look, to be taken every few hundredths of a second."""

    def __init__(self, pid: int, limits: Limits, log: Path, device: str = "") -> None:
        """`device` is the trial's, as the user named it."""
        self._phase = ""
        self._pid = pid
        self._limits = limits
        self._log = log
        self._deadline = time.monotonic() + limits.timeout_s
        self.family: set[int] = set()
        """of the trial: all processes that it was seen to have"""
        self._live: list[int] = []
        self._looked_at = 0.0
        self._card_looked_at = 0.0
        self._counted = 0
        self._counted_at = 0.0
        self._gpu = GpuWatch(pid, card_of(device))

    def told(self, phase: str) -> None:
        """Take the phase that the trial says it is in; the accelerator is looked at as its window begins."""
        if phase != self._phase:
            self._phase, self._card_looked_at = phase, 0.0

    def verdict(self) -> tuple[Outcome, Failure] | None:
        """Return how the trial must end now, or None to let it go on."""
        now = time.monotonic()
        if now > self._deadline:
            limit = f"{self._limits.timeout_s:g} s"
            message = f"the trial did not end within {limit}; --trial-timeout allows more, up to --timeout"
            if self._live:
                message += ". Its other processes may hang; of loader workers num_workers=0 would show it"
            return Outcome.TIMEOUT, Failure(reason=f"no end within {limit}", message=message)
        if now - self._looked_at > FAMILY_S:
            self._looked_at = now
            self._live = _descendants(self._pid)
            self.family.update(self._live)
            _shorten(self._log)
        if now - self._card_looked_at > CARD_S:
            self._card_looked_at = now
            self._gpu.look(self._live, timed=self._phase == "window")
        used = self._host_bytes(now)
        if used > self._limits.host_bytes:
            message = (
                f"the trial held {used / GIB:.2f} GiB of host memory, more than the "
                f"{self._limits.host_bytes / GIB:.2f} GiB it may use"
            )
            return Outcome.OUT_OF_MEMORY, Failure(reason="over the host memory limit", message=message)
        return None

    def _host_bytes(self, now: float) -> int:
        """Return what the trial holds: cheaply, and exactly where the cheap figure is over the limit.

        A worker's own pages include those that it shares with the trial since the fork, a dataset in memory above
        all; proportional sizes count them once, but reading them stops a process for some 10 ms a GiB.
        """
        main = _resident(self._pid)
        bound = main + sum(_own(pid) for pid in self._live)
        if main > self._limits.host_bytes or bound <= self._limits.host_bytes:
            return bound
        if now - self._counted_at > FAMILY_S:
            self._counted_at = now
            self._counted = tree_bytes(self._pid, self._live) or bound
        return self._counted

    def seen(self) -> Mapping[str, Any]:
        """Return what was seen of the accelerator; empty where there is none."""
        return self._gpu.seen()

    def close(self) -> None:
        self._gpu.close()
        _shorten(self._log)


def _descendants(pid: int) -> list[int]:
    try:
        return [child.pid for child in psutil.Process(pid).children(recursive=True)]
    except psutil.Error:
        return []


def _statm(pid: int) -> list[int]:
    try:
        return [int(field) * PAGE_BYTES for field in Path(f"/proc/{pid}/statm").read_text().split()]
    except (OSError, ValueError):
        return []


def _resident(pid: int) -> int:
    fields = _statm(pid)
    return fields[1] if fields else 0


def _own(pid: int) -> int:
    """Return the resident bytes that are not file-backed or shared: an upper bound of what a worker adds."""
    fields = _statm(pid)
    return fields[1] - fields[2] if fields else 0


def _shorten(log: Path) -> None:
    """Keep a log from filling the disk: of one that is too large, the begin and the end.

    The trial appends, so that what it writes next lands behind them.
    """
    try:
        if log.stat().st_size <= MAX_LOG_BYTES:
            return
        with log.open("r+b") as file:
            head = file.read(MAX_LOG_BYTES // 4)
            file.seek(-(MAX_LOG_BYTES // 4), os.SEEK_END)
            tail = file.read()
            file.truncate(0)
            file.seek(0)
            file.write(head + LOG_GAP + tail)
    except OSError:
        return
