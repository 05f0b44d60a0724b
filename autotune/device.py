"""The one seam to the device: clock edges, memory peaks and caps, capability. Nothing else asks which device it is.

Written on `torch.accelerator` where that suffices and on `torch.cuda` where it does not.
"""

from __future__ import annotations

import os
import platform
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.profiler import ProfilerActivity

from autotune.errors import Unsupported, UsageError
from autotune.machine import Machine

ALLOCATOR_VARIABLES = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")
SEGMENT_PROBE_BYTES = 4 << 20  # more than the small blocks, which share a segment
SYNCHRONIZING = "called a synchronizing"  # of the warning that counts; one about the debug mode comes before it
NATIVE_BF16_CPU_FLAGS = ("avx512_bf16", "amx_bf16", "avx10", "bf16")  # "bf16" alone is Arm's


@dataclass(frozen=True, kw_only=True)
class DevicePeaks:
    """Bytes on the device since the last reset."""

    allocated: int = 0
    reserved: int = 0


class Copies(Protocol):
    """A second queue of the device, on which batches are copied while the first one computes."""

    def beside(self) -> AbstractContextManager[Any]:
        """Return the context in which work is given to the second queue."""

    def mark(self) -> Any:
        """Return a mark after all that the second queue was given so far."""

    def hand_over(self, mark: Any, tensors: list[Tensor]) -> None:
        """Let work given to the first queue from now on wait for the mark, and keep the tensors until it is done."""


class StreamCopies:
    """The second queue of an accelerator: a stream."""

    def __init__(self, device: torch.device) -> None:
        self._device, self._stream = device, torch.Stream(device)

    def beside(self) -> AbstractContextManager[Any]:
        return self._stream

    def mark(self) -> torch.Event:
        return self._stream.record_event()

    def hand_over(self, mark: torch.Event, tensors: list[Tensor]) -> None:
        current = torch.accelerator.current_stream(self._device)
        current.wait_event(mark)
        for tensor in (item for item in tensors if item.device.type == self._device.type):
            # its memory is the side stream's, which must not use it again while the step still reads it
            tensor.record_stream(current)


class Device:
    """The CPU, and the base of the accelerators."""

    min_block_s = 0.05
    """a block is at least this long, so that the clock and the edges cost nothing beside it"""
    min_warmup_s = 1.0
    min_window_s = 1.5

    def __init__(self, device: torch.device) -> None:
        self.torch = device

    @property
    def type(self) -> str:
        return self.torch.type

    @property
    def id(self) -> str:
        """The name by which `device_named` finds it again."""
        return str(self.torch)

    @property
    def name(self) -> str:
        return Machine.read().cpu

    @property
    def is_accelerator(self) -> bool:
        return False

    def random_state(self) -> Tensor:
        """Return the state of the generator that operations on the device draw from."""
        return torch.get_rng_state()

    def set_random_state(self, state: Tensor) -> None:
        torch.set_rng_state(state)

    def synchronize(self) -> None:
        """Wait until all work given to the device is done: called at the edges of a block, never inside."""

    @contextmanager
    def synchronisations(self) -> Iterator[list[tuple[str, int]]]:
        """Note (file, line) where the host waits for the device meanwhile; filled at the end. The CPU never waits."""
        yield []

    def copies(self) -> Copies | None:
        """Return a second queue for copies; None where there is nothing to copy beside."""
        return None

    def expand_segments(self) -> Callable[[], None]:
        """Let the allocator grow its segments from now on; returns how to set that back. Only CUDA's can.

        Raises:
            Unsupported: the setting did not take effect.
        """
        return lambda: None

    def profiled_activities(self) -> list[ProfilerActivity]:
        """Return what torch's profiler must record to see all that the device does."""
        return [ProfilerActivity.CPU]

    def cap_memory(self, limit_bytes: int | None) -> None:
        """Let allocations beyond `limit_bytes` fail. The CPU has no such cap; the watchdog stands in."""

    def reset_peaks(self) -> None:
        """Start the steady peaks anew."""

    def peaks(self) -> DevicePeaks:
        """Return the peaks since the last reset."""
        return DevicePeaks()

    def lifetime_peaks(self) -> DevicePeaks:
        """Return the peaks since the process began."""
        return DevicePeaks()

    def retries(self) -> int:
        """Return how often the allocator had to free cached memory and try again."""
        return 0

    def total_bytes(self) -> int | None:
        return None

    def free_bytes(self) -> int | None:
        return None

    def save_snapshot(self, path: Path, work: Callable[[], object]) -> bool:
        """Do some work and save what the allocator did meanwhile for torch's viewer; return whether there is such."""
        return False

    def native_bf16(self) -> bool:
        """Whether the device computes in bf16 itself rather than emulating it."""
        try:
            with open("/proc/cpuinfo", encoding="utf-8") as lines:
                line = next((line for line in lines if line.startswith(("flags", "Features"))), "")
        except OSError:
            return False
        words = line.split()
        flags = NATIVE_BF16_CPU_FLAGS if platform.machine() != "x86_64" else NATIVE_BF16_CPU_FLAGS[:3]
        return any(flag in words for flag in flags)

    def native_fp16(self) -> bool:
        """Whether fp16 autocast pays at all; on a CPU it is many times slower than fp32."""
        return False

    def capability(self) -> tuple[int, int] | None:
        """Return the CUDA compute capability; None on anything but an NVIDIA card."""
        return None


class Accelerator(Device):
    """Any accelerator that torch.accelerator knows."""

    min_block_s = 0.1
    min_warmup_s = 2.0
    min_window_s = 2.0

    def __init__(self, device: torch.device) -> None:
        super().__init__(device)
        torch.accelerator.set_device_index(device.index or 0)
        self._lifetime = DevicePeaks()

    @property
    def name(self) -> str:
        return self.type

    @property
    def is_accelerator(self) -> bool:
        return True

    def copies(self) -> Copies | None:
        return StreamCopies(self.torch)

    def synchronize(self) -> None:
        torch.accelerator.synchronize(self.torch)

    def reset_peaks(self) -> None:
        self._lifetime = self.lifetime_peaks()
        torch.accelerator.memory.reset_peak_memory_stats(self.torch)

    def peaks(self) -> DevicePeaks:
        memory = torch.accelerator.memory
        return DevicePeaks(
            allocated=memory.max_memory_allocated(self.torch), reserved=memory.max_memory_reserved(self.torch)
        )

    def lifetime_peaks(self) -> DevicePeaks:
        now = self.peaks()
        return DevicePeaks(
            allocated=max(now.allocated, self._lifetime.allocated),
            reserved=max(now.reserved, self._lifetime.reserved),
        )

    def native_bf16(self) -> bool:
        return True

    def native_fp16(self) -> bool:
        return True


class Cuda(Accelerator):
    """NVIDIA and AMD cards under torch.cuda."""

    @property
    def name(self) -> str:
        return torch.cuda.get_device_name(self.torch)

    @contextmanager
    def synchronisations(self) -> Iterator[list[tuple[str, int]]]:
        found: list[tuple[str, int]] = []
        before = torch.cuda.get_sync_debug_mode()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            torch.cuda.set_sync_debug_mode("warn")
            try:
                yield found
            finally:
                torch.cuda.set_sync_debug_mode(before)
        found += [(item.filename, item.lineno) for item in caught if SYNCHRONIZING in str(item.message)]

    def profiled_activities(self) -> list[ProfilerActivity]:
        return [ProfilerActivity.CPU, ProfilerActivity.CUDA]

    def cap_memory(self, limit_bytes: int | None) -> None:
        if limit_bytes is None:
            return
        total = torch.cuda.get_device_properties(self.torch).total_memory
        torch.cuda.set_per_process_memory_fraction(min(1.0, limit_bytes / total), self.torch)

    def expand_segments(self) -> Callable[[], None]:
        held = torch.cuda.memory_reserved(self.torch) if torch.cuda.is_initialized() else 0
        if held:
            warnings.warn(
                f"expandable_segments comes too late for {held >> 20} MiB that torch holds already on {self.torch}: "
                "make Tuned before anything else uses the device",
                stacklevel=3,
            )
        restore = expand_segments_from_the_start()
        try:
            probe = torch.empty(SEGMENT_PROBE_BYTES, dtype=torch.uint8, device=self.torch)
            address = probe.data_ptr()
            segments = torch.cuda.memory_snapshot()
        except RuntimeError as error:
            raise Unsupported(f"expandable_segments does not work on {self.name}: {error}") from error
        own = [item for item in segments if 0 <= address - item["address"] < item["total_size"]]
        if not held and not any(item.get("is_expandable") for item in own):
            raise Unsupported(f"expandable_segments has no effect on {self.name}")
        return restore

    def retries(self) -> int:
        return int(torch.cuda.memory_stats(self.torch).get("num_alloc_retries", 0))

    def save_snapshot(self, path: Path, work: Callable[[], object]) -> bool:
        torch.cuda.memory._record_memory_history(device=self.torch)
        try:
            work()
            torch.cuda.memory._dump_snapshot(str(path))
        finally:
            torch.cuda.memory._record_memory_history(enabled=None, device=self.torch)
        return True

    def total_bytes(self) -> int | None:
        return int(torch.cuda.get_device_properties(self.torch).total_memory)

    def free_bytes(self) -> int | None:
        return int(torch.cuda.mem_get_info(self.torch)[0])

    def random_state(self) -> Tensor:
        return torch.cuda.get_rng_state(self.torch)

    def set_random_state(self, state: Tensor) -> None:
        torch.cuda.set_rng_state(state, self.torch)

    def capability(self) -> tuple[int, int] | None:
        return None if torch.version.cuda is None else torch.cuda.get_device_capability(self.torch)

    def native_bf16(self) -> bool:
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))


OTHERS: dict[str, Callable[[], Device]] = {}
"""devices that torch has no name for: the accelerator that tests make believe"""


def on_host(tensor: Tensor) -> bool:
    """Whether a tensor lies in host memory."""
    return tensor.device.type == "cpu"


def touched() -> bool:
    """Whether this process has used an accelerator already."""
    return bool(torch.cuda.is_initialized())


def reads_allocator_variables() -> bool:
    """Whether torch has an allocator that heeds `ALLOCATOR_VARIABLES`."""
    return bool(torch.backends.cuda.is_built())


def why_allocator_is_set() -> str | None:
    """Return why the allocator's settings are no longer ours to choose, or None."""
    for name in ALLOCATOR_VARIABLES:
        value = os.environ.get(name, "")
        if "expandable_segments" in value or "backend" in value:
            return f"the environment sets it: {name}={value}"
    return None


def expand_segments_from_the_start() -> Callable[[], None]:
    """Let CUDA's allocator grow its segments once the process uses it; returns how to set that back.

    Does not begin to use it: the process may still choose its cards. Without CUDA nothing happens.
    """
    if not reads_allocator_variables():
        return lambda: None
    _set_allocator("expandable_segments:True")
    return lambda: _set_allocator("expandable_segments:False")


def _set_allocator(setting: str) -> None:
    """Change one setting of CUDA's allocator, keeping what the environment says of the others."""
    given = next((os.environ[name] for name in ALLOCATOR_VARIABLES if os.environ.get(name)), "")
    settings = f"{given},{setting}" if given else setting
    if hasattr(torch._C, "_accelerator_setAllocatorSettings"):
        torch._C._accelerator_setAllocatorSettings(settings)
    else:
        torch.cuda.memory._set_allocator_settings(settings)


def device_named(name: str = "") -> Device:
    """Return the device called `name`, or the best one there is.

    Raises:
        UsageError: there is no such device here.
    """
    if not name:
        accelerator = torch.accelerator.current_accelerator(check_available=True)
        device = torch.device("cpu") if accelerator is None else accelerator
    elif name in OTHERS:
        return OTHERS[name]()
    else:
        try:
            device = torch.device(name)
        except RuntimeError:
            raise UsageError(f"no such device: {name}", hint="Devices are named cpu, cuda, cuda:1, ...") from None
    if device.type == "cpu":
        return Device(torch.device("cpu"))
    if not torch.accelerator.is_available() or (device.index or 0) >= torch.accelerator.device_count():
        raise UsageError(f"there is no device {name} here", hint="Leave out --device to use the best there is.")
    # without a number, as in torch itself, it is the current one: each process of several has set its own
    index = torch.accelerator.current_device_index() if device.index is None else device.index
    device = torch.device(device.type, index)
    return Cuda(device) if device.type == "cuda" else Accelerator(device)
