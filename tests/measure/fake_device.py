"""An accelerator that is none: work is queued on a thread, as kernels are on a stream, and memory is a number.

A script that a search runs can compute on it: `install()` when it is imported, and `--device fake:0`.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from contextlib import suppress

import torch

from autotune.device import OTHERS, Device, DevicePeaks

NAME = "fake:0"


class FakeAsyncDevice(Device):
    """Does what it is given later; only `synchronize` waits for it.

    `events` holds "work" and "sync" in the order in which the host saw them. Memory moves at once, through a cache of
    blocks as torch's allocators have one: what is freed stays reserved, and serves later requests that take half of it
    at least.
    A request beyond the cap empties the cache first, which counts as a retry, and fails where that is not enough.
    """

    min_block_s = 0.02
    min_warmup_s = 0.1
    min_window_s = 0.2
    total = 1 << 40

    def __init__(self) -> None:
        super().__init__(torch.device("cpu"))
        self.events: list[str] = []
        self.retry_count = 0
        self.held = 0
        self.reserved = 0
        self.cap: int | None = None
        self._cached: list[int] = []
        self._peak = DevicePeaks()
        self._lifetime = DevicePeaks()
        self._work: queue.Queue[Callable[[], None] | None] = queue.Queue()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def id(self) -> str:
        return NAME

    @property
    def name(self) -> str:
        return "a fake accelerator"

    @property
    def is_accelerator(self) -> bool:
        return True

    def submit(self, seconds: float) -> None:
        """Queue work that takes so long; returns at once."""
        self.events.append("work")
        self.give(lambda: time.sleep(seconds))

    def give(self, function: Callable[[], None]) -> None:
        """Queue a function that the device calls when its turn comes; returns at once."""
        self._work.put(function)

    def allocate(self, size: int) -> tuple[int, int]:
        """Take memory; return what `free` needs: the size, and that of the block that it came from.

        Raises:
            torch.OutOfMemoryError: it does not fit under the cap.
        """
        block = min((item for item in self._cached if size <= item <= 2 * size), default=None)
        if block is not None:
            self._cached.remove(block)
        else:
            block = size
            if self.cap is not None and self.reserved + size > self.cap:
                self.retry_count += 1
                self.reserved -= sum(self._cached)
                self._cached.clear()
                if self.reserved + size > self.cap:
                    raise torch.OutOfMemoryError(f"fake out of memory. Tried to allocate {size} bytes")
            self.reserved += size
        self.held += size
        self._peak = _larger(self._peak, self.held, self.reserved)
        return size, block

    def free(self, taken: tuple[int, int]) -> None:
        size, block = taken
        self.held -= size
        self._cached.append(block)

    def close(self) -> None:
        """End the thread; what it was given and has not begun is dropped."""
        with suppress(queue.Empty):
            while True:
                self._work.get_nowait()
                self._work.task_done()
        self._work.put(None)
        self._thread.join()

    def synchronize(self) -> None:
        self._work.join()
        self.events.append("sync")

    def cap_memory(self, limit_bytes: int | None) -> None:
        self.cap = limit_bytes

    def reset_peaks(self) -> None:
        self._lifetime = self.lifetime_peaks()
        self._peak = DevicePeaks(allocated=self.held, reserved=self.reserved)

    def peaks(self) -> DevicePeaks:
        return self._peak

    def lifetime_peaks(self) -> DevicePeaks:
        return _larger(self._lifetime, self._peak.allocated, self._peak.reserved)

    def retries(self) -> int:
        return self.retry_count

    def total_bytes(self) -> int:
        return self.total

    def free_bytes(self) -> int:
        return self.total - self.reserved

    def _run(self) -> None:
        while (function := self._work.get()) is not None:
            function()
            self._work.task_done()
        self._work.task_done()


def _larger(peaks: DevicePeaks, allocated: int, reserved: int) -> DevicePeaks:
    return DevicePeaks(allocated=max(peaks.allocated, allocated), reserved=max(peaks.reserved, reserved))


def install() -> FakeAsyncDevice:
    """Let `device_named` find one by its name in this process; return it."""
    device = FakeAsyncDevice()
    OTHERS[NAME] = lambda: device
    return device
