"""An accelerator that is none: work is queued on a thread, as kernels are on a stream, and memory is a number."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable

import torch

from autotune.device import Device, DevicePeaks


class FakeAsyncDevice(Device):
    """Does what it is given later; only `synchronize` waits for it.

    `events` holds "work" and "sync" in the order in which the host saw them. Memory moves at once: `allocate` and
    `free` change what is held, and the peaks follow.
    """

    min_block_s = 0.02
    min_warmup_s = 0.1
    min_window_s = 0.2

    def __init__(self) -> None:
        super().__init__(torch.device("cpu"))
        self.events: list[str] = []
        self.retry_count = 0
        self.held = 0
        self._peak = 0
        self._lifetime = 0
        self._work: queue.Queue[Callable[[], None] | None] = queue.Queue()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def submit(self, seconds: float) -> None:
        """Queue work that takes so long; returns at once."""
        self.events.append("work")
        self.give(lambda: time.sleep(seconds))

    def give(self, function: Callable[[], None]) -> None:
        """Queue a function that the device calls when its turn comes; returns at once."""
        self._work.put(function)

    def allocate(self, size: int) -> None:
        self.held += size
        self._peak = max(self._peak, self.held)

    def free(self, size: int) -> None:
        self.held -= size

    def close(self) -> None:
        self._work.put(None)
        self._thread.join()

    def synchronize(self) -> None:
        self._work.join()
        self.events.append("sync")

    def reset_peaks(self) -> None:
        self._lifetime = max(self._lifetime, self._peak)
        self._peak = self.held

    def peaks(self) -> DevicePeaks:
        return DevicePeaks(allocated=self._peak, reserved=self._peak)

    def lifetime_peaks(self) -> DevicePeaks:
        ever = max(self._lifetime, self._peak)
        return DevicePeaks(allocated=ever, reserved=ever)

    def retries(self) -> int:
        return self.retry_count

    def _run(self) -> None:
        while (function := self._work.get()) is not None:
            function()
            self._work.task_done()
        self._work.task_done()
