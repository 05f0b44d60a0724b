"""Process groups: each trial is one, with whatever it has started and may leave behind when it is killed."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

TICK_S = 0.05
TERMINATE_S = 3.0  # between asking a group to end and ending it
GONE_S = 10.0  # for the kernel to take a killed group away


def end_group(pid: int, *, gently: bool = False) -> None:
    """End every process of a group, asking first where there is time for a traceback."""
    if gently:
        _signal_group(pid, signal.SIGTERM)
        deadline = time.monotonic() + TERMINATE_S
        while time.monotonic() < deadline and _signal_group(pid, 0):
            time.sleep(TICK_S)
    _signal_group(pid, signal.SIGKILL)


def wait_until_gone(pid: int) -> None:
    """Kill what is left of a group and wait until nothing is: the next trial must have the machine to itself."""
    deadline = time.monotonic() + GONE_S
    while _signal_group(pid, signal.SIGKILL) and time.monotonic() < deadline:
        time.sleep(0.005)


def semaphore_prefix(pid: int) -> str:
    """Return what the names of a trial's semaphores begin with, for multiprocessing."""
    return f"/autotune-{pid}"


def remove_semaphores(pid: int) -> None:
    """Unlink what spawned workers were given by name: multiprocessing's own tracker ends with the trial."""
    for path in Path("/dev/shm").glob(f"sem.{semaphore_prefix(pid)[1:]}-*"):
        path.unlink(missing_ok=True)


def _signal_group(pid: int, number: int) -> bool:
    """Send a signal to a process group; return whether there is one."""
    try:
        os.killpg(pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True
