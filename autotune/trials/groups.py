"""Process groups: each trial is one, with whatever it has started and may leave behind when it is killed."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

SHARED_MEMORY = Path("/dev/shm")
MAKER = re.compile(r"(?:torch_|sem\.autotune-)(\d+)[_-]")
TICK_S = 0.05
TERMINATE_S = 3.0  # between asking a group to end and ending it
GONE_S = 10.0  # for the kernel to take a killed group away
GONE_TICK_S = 0.005


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
        time.sleep(GONE_TICK_S)


def semaphore_prefix(pid: int) -> str:
    """Return what the names of a trial's semaphores begin with, for multiprocessing."""
    return f"/autotune-{pid}"


def remove_shared_memory(pids: Collection[int]) -> None:
    """Unlink what trials and loader workers that are gone left in /dev/shm: nobody else knows of it.

    A batch has a name there from when a worker makes it until, a moment later, it is opened by descriptor; the
    semaphores of spawned workers have one for as long as multiprocessing's tracker, which ends with the trial.
    """
    for path in SHARED_MEMORY.iterdir() if SHARED_MEMORY.is_dir() else ():
        maker = MAKER.match(path.name)
        if maker is not None and int(maker[1]) in pids:
            with suppress(OSError):  # another user's process had the number before
                path.unlink(missing_ok=True)


def _signal_group(pid: int, number: int) -> bool:
    """Send a signal to a process group; return whether there is one."""
    try:
        os.killpg(pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True
