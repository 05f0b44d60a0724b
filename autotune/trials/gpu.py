"""NVIDIA's view of a trial: memory of its processes, throttling, other processes on the card."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import pynvml

# NVML's reasons for lower clocks that make a window's figures wrong; a power cap alone is normal at full load
THROTTLE_REASONS = 0x8 | 0x20 | 0x40 | 0x80  # hardware slowdown, thermal (software, hardware), power brake
POWER_CAP = 0x4


class GpuWatch:
    """Looks at every NVIDIA card twice a second while a trial runs; does nothing where there is none."""

    def __init__(self, pid: int, nvml: Any = pynvml) -> None:
        self._pid = pid
        self._nvml = nvml
        self._handles: list[Any] = []
        self._process_bytes = 0
        self._flags: set[str] = set()
        with suppress(nvml.NVMLError):
            nvml.nvmlInit()
            self._handles = [nvml.nvmlDeviceGetHandleByIndex(i) for i in range(nvml.nvmlDeviceGetCount())]

    def look(self, family: Sequence[int]) -> None:
        """Take one sample; only cards that the trial uses count."""
        ours = {self._pid, *family}
        for handle in self._handles:
            with suppress(self._nvml.NVMLError):
                self._look_at(handle, ours)

    def _look_at(self, handle: Any, ours: set[int]) -> None:
        running = self._nvml.nvmlDeviceGetComputeRunningProcesses(handle)
        used = sum(item.usedGpuMemory or 0 for item in running if item.pid in ours)
        if not any(item.pid in ours for item in running):
            return
        self._process_bytes = max(self._process_bytes, used)
        if any(item.pid not in ours for item in running):
            self._flags.add("gpu_shared")
        reasons = self._nvml.nvmlDeviceGetCurrentClocksEventReasons(handle)
        if reasons & THROTTLE_REASONS:
            self._flags.add("gpu_throttled")
        if reasons & POWER_CAP:
            self._flags.add("power_capped")

    def seen(self) -> Mapping[str, Any]:
        """Return what was seen; empty where no card ran the trial."""
        if not self._process_bytes and not self._flags:
            return {}
        return {"process_bytes": self._process_bytes, "flags": tuple(sorted(self._flags))}

    def close(self) -> None:
        if self._handles:
            with suppress(self._nvml.NVMLError):
                self._nvml.nvmlShutdown()
            self._handles = []
