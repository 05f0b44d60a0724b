"""NVIDIA's view of a trial: memory of its processes, clocks, throttling, other processes on the card."""

from __future__ import annotations

import functools
import os
import statistics
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any

import pynvml

from autotune.machine import Machine
from autotune.trials.lock import lock_name

# NVML's reasons for lower clocks that make a window's figures wrong; a power cap alone is normal at full load
THROTTLE_REASONS = 0x8 | 0x20 | 0x40 | 0x80  # hardware slowdown, thermal (software, hardware), power brake
POWER_CAP = 0x4
BUSY_PERCENT = 5  # of a card's multiprocessors: what takes less takes nothing from a trial
RECENT_S = 1.0  # the driver's samples are a sixth of a second to a second long


class GpuWatch:
    """Looks at every NVIDIA card while a trial runs, some times a second; does nothing where there is none.

    In a container the driver may know processes by other numbers than we do. Then the card that the trial was given
    speaks for it: what it holds more than before the trial, and who was on it already.
    """

    def __init__(self, pid: int, card: str = "", nvml: Any = pynvml) -> None:
        """Begin before the trial uses its device; `card` is the UUID of the one that it was given, if known."""
        self._pid = pid
        self._nvml = nvml
        self._handles: list[Any] = []
        self._card: Any = None
        self._before: frozenset[int] = frozenset()
        self._held_before = 0
        self._process_bytes = 0
        self._gained_bytes = 0
        self._found = self._shared = False
        self._others: frozenset[int] | None = None
        self._flags: set[str] = set()
        self._clocks: list[int] = []
        with suppress(nvml.NVMLError):
            nvml.nvmlInit()
            self._handles = [nvml.nvmlDeviceGetHandleByIndex(i) for i in range(nvml.nvmlDeviceGetCount())]
        if self._handles and card:
            with suppress(nvml.NVMLError):
                handle = nvml.nvmlDeviceGetHandleByUUID(card)
                self._before = frozenset(item.pid for item in self._running(handle))
                self._held_before = int(nvml.nvmlDeviceGetMemoryInfo(handle).used)
                self._card = handle

    def look(self, family: Sequence[int], *, timed: bool = False) -> None:
        """Take one sample; only cards that the trial uses count.

        Args:
            family: the trial's other processes.
            timed: the trial is in its timed window, so that clocks and disturbances are those of its figures.
        """
        ours = {self._pid, *family}
        for handle in self._handles:
            with suppress(self._nvml.NVMLError):
                self._look_for_ours(handle, ours, timed)
        if self._card is not None and not self._process_bytes:
            with suppress(self._nvml.NVMLError):
                self._look_at_card(timed)

    def _look_for_ours(self, handle: Any, ours: set[int], timed: bool) -> None:
        running = self._running(handle)
        if not any(item.pid in ours for item in running):
            return
        if not self._found:
            self._found, self._flags, self._clocks, self._others = True, set(), [], None
            self._shared = False
        used = sum(item.usedGpuMemory or 0 for item in running if item.pid in ours)
        self._process_bytes = max(self._process_bytes, used)
        # a notebook that steers has a context of its own, and waits
        self._look_at_others(handle, frozenset(item.pid for item in running) - ours - {os.getpid()}, timed)
        if timed:
            self._look_at_clocks(handle)

    def _look_at_card(self, timed: bool) -> None:
        held = int(self._nvml.nvmlDeviceGetMemoryInfo(self._card).used)
        self._gained_bytes = max(self._gained_bytes, held - self._held_before)
        if self._found:
            return  # the processes are known, and only their memory is not
        running = self._running(self._card)
        self._look_at_others(self._card, self._before.intersection(item.pid for item in running), timed)
        if timed:
            self._look_at_clocks(self._card)

    def _look_at_others(self, handle: Any, others: frozenset[int], timed: bool) -> None:
        """Flag other processes that come, go or compute; one that only holds memory takes no time."""
        before, self._others = self._others, others
        if others != (others if before is None else before) or compute(handle, others, self._nvml):
            self._shared = True
            if timed:
                self._flags.add("gpu_shared")

    def _running(self, handle: Any) -> Sequence[Any]:
        """Return the processes on a card; none where the driver does not tell, as in some containers."""
        with suppress(self._nvml.NVMLError):
            found: Sequence[Any] = self._nvml.nvmlDeviceGetComputeRunningProcesses(handle)
            return found
        return ()

    def _look_at_clocks(self, handle: Any) -> None:
        with suppress(self._nvml.NVMLError):
            self._clocks.append(int(self._nvml.nvmlDeviceGetClockInfo(handle, self._nvml.NVML_CLOCK_SM)))
        reasons = self._reasons(handle)
        if reasons & THROTTLE_REASONS:
            self._flags.add("gpu_throttled")
        if reasons & POWER_CAP:
            self._flags.add("power_capped")

    def _reasons(self, handle: Any) -> int:
        """Return why the clocks are lower than they could be; 0 where the driver does not tell."""
        for ask in ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"):
            function = getattr(self._nvml, ask, None)  # a binding may be older than the name
            if function is not None:
                with suppress(self._nvml.NVMLError):  # drivers before 535 know the second name alone
                    return int(function(handle))
        return 0

    def seen(self) -> Mapping[str, Any]:
        """Return what was seen; empty where no card ran the trial."""
        used = self._process_bytes
        if not used and not self._shared:
            used = self._gained_bytes
        if not used and not self._flags:
            return {}
        clock = round(statistics.median(self._clocks)) if self._clocks else 0
        return {"process_bytes": used, "flags": tuple(sorted(self._flags)), "sm_clock_mhz": clock}

    def close(self) -> None:
        if self._handles:
            with suppress(self._nvml.NVMLError):
                self._nvml.nvmlShutdown()
            self._handles = []


def compute(handle: Any, processes: Collection[int], nvml: Any = pynvml) -> bool:
    """Return whether some of the processes on a card compute there, or may: not every driver tells."""
    if not processes:
        return False
    try:
        samples = nvml.nvmlDeviceGetProcessUtilization(handle, int(1e6 * (time.time() - RECENT_S)))
    except nvml.NVMLError as error:
        return bool(error.value != nvml.NVML_ERROR_NOT_FOUND)  # that is: none did
    return any(item.pid in processes and item.smUtil > BUSY_PERCENT for item in samples)


@functools.cache
def card_of(device: str) -> str:
    """Return the UUID of the card that a trial on `device` gets; empty where none or nobody knows."""
    gpus = Machine.read().gpus
    return lock_name(device, gpus) if gpus and device != "cpu" else ""
