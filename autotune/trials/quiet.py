"""Waiting for a quiet machine before each trial: `--wait-idle`."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pynvml

from autotune.machine import Machine, usable_cores
from autotune.measure.contention import FOREIGN_CORES, busy_cpu_s
from autotune.records import TrialRecord, TrialSpec
from autotune.trials.gpu import BUSY_PERCENT, compute
from autotune.trials.lock import lock_name
from autotune.trials.runner import Report, Runner, silent

SAMPLE_S = 1.0  # over which the cores are watched; the load average would remember our own last trial
BUSY_SHARE = 0.05  # of the usable cores that others may use, on large machines with their many small services


class QuietRunner:
    """Runs trials by another runner, each once the machine is quiet or the patience is used up."""

    def __init__(
        self,
        runner: Runner,
        patience_s: float,
        tell: Callable[[str], None],
        *,
        look: Callable[[str], str] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`look` takes a device's name, watches for a moment and returns what disturbs, or nothing."""
        self._runner, self._patience_s, self._tell = runner, patience_s, tell
        self._look, self._clock = look or disturbance, clock

    def run(self, spec: TrialSpec, log: Path, report: Report = silent) -> TrialRecord:
        self._wait(spec.device)
        return self._runner.run(spec, log, report)

    def close(self) -> None:
        self._runner.close()

    def _wait(self, device: str) -> None:
        began = self._clock()
        said = False
        while seen := self._look(device):
            waited_s = self._clock() - began
            if waited_s >= self._patience_s:
                self._tell(f"still not quiet after {waited_s:.0f} s ({seen}): measured all the same; see its flags")
                return
            if not said:
                self._tell(f"waiting up to {self._patience_s:g} s for a quiet machine: {seen}")
            said = True
        if said:
            self._tell(f"quiet after {self._clock() - began:.0f} s")


def disturbance(device: str) -> str:
    """Watch the machine for a second, while no trial runs; return what would disturb one, in words, or nothing."""
    cpus = os.sched_getaffinity(0)
    wall, busy, own = time.perf_counter(), busy_cpu_s(cpus), time.process_time()
    time.sleep(SAMPLE_S)
    wall, busy, own = time.perf_counter() - wall, busy_cpu_s(cpus) - busy, time.process_time() - own
    used = max(0.0, busy - own) / wall
    usable = usable_cores()
    # with a CPU quota some cores may be busy and the rest still be as many as the quota allows
    allowed = len(cpus) - usable + max(FOREIGN_CORES, BUSY_SHARE * usable)
    if used > allowed:
        return f"other programs use {used:.1f} cores"
    return _gpu_disturbance(device)


def _gpu_disturbance(device: str, nvml: Any = pynvml) -> str:
    gpus = Machine.read().gpus
    if not gpus or device == "cpu":
        return ""
    name = lock_name(device, gpus)
    with suppress(nvml.NVMLError):
        nvml.nvmlInit()
        try:
            handle = nvml.nvmlDeviceGetHandleByUUID(name)
            others = {item.pid for item in nvml.nvmlDeviceGetComputeRunningProcesses(handle)} - {os.getpid()}
            if compute(handle, others, nvml):
                return "another process is on the card"
            used = int(nvml.nvmlDeviceGetUtilizationRates(handle).gpu)
            return f"the card is busy ({used} %)" if used > BUSY_PERCENT else ""
        finally:
            nvml.nvmlShutdown()
    return ""
