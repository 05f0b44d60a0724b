"""How samples are read: batches loaded in this process, timed, sampled by line and with the libraries watched."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import numpy as np
from torch.utils.data import DataLoader, IterableDataset

from autotune.doctor.findings import Basis, Gain
from autotune.doctor.lines import Line, sample_frames, users
from autotune.doctor.watching import Seen, watching

if TYPE_CHECKING:
    from autotune.doctor.context import Context

LOOK_S = 1.5  # each look at the reading takes about so long
MIN_BATCHES = 2
MAX_SAMPLES = 400
MAX_BATCH = 32  # samples that are read and collated at once: slow ones must not keep the doctor for minutes
IO = Path("/proc/self/io")


class Reader:
    """Reads samples and batches as the loader does, in this process.

    Made by `reader_of`, which knows what can be read so.
    """

    def __init__(self, dataset: Any, collate: Callable[[Any], Any], batch_size: int, seed: int = 0) -> None:
        self.dataset, self.collate, self.batch_size = dataset, collate, batch_size
        self.iterable = isinstance(dataset, IterableDataset)
        """samples come in a row, and none can be read again"""
        self._numbers = np.random.default_rng(seed)
        self._stream: Iterator[Any] | None = None

    def indices(self, count: int) -> list[int]:
        """Return `count` different samples to read, in random order; fewer where there are fewer."""
        length = len(self.dataset)
        return [int(index) for index in self._numbers.choice(length, min(count, length), replace=False)]

    def batch(self) -> int:
        """Read one batch; return its samples."""
        samples = self._samples()
        if samples:
            self.collate(samples)
        return len(samples)

    def _samples(self) -> list[Any]:
        if not self.iterable:
            wanted = self.indices(self.batch_size)
            several = getattr(self.dataset, "__getitems__", None)
            return list(several(wanted)) if callable(several) else [self.dataset[index] for index in wanted]
        samples = []
        for _ in range(self.batch_size):
            sample = self._next()
            if sample is _END:
                break
            samples.append(sample)
        return samples

    def _next(self) -> Any:
        for _ in range(2):
            if self._stream is None:
                self._stream = iter(self.dataset)
            sample = next(self._stream, _END)
            if sample is not _END:
                return sample
            self._stream = None
        return _END


_END = object()


def reader_of(context: Context) -> Reader | None:
    """Return what reads the training's samples in this process; None where only the loader itself can."""
    host: Any = context.training.loader.host
    if not isinstance(host, DataLoader) or host.batch_size is None:
        return None
    return Reader(host.dataset, host.collate_fn, min(MAX_BATCH, int(host.batch_size)))


Chains = Counter[tuple[tuple[tuple[Line, str], ...], str]]
"""seconds by the user's frames, outermost first (line and function), and by what the innermost called, or "" """


@dataclass(frozen=True)
class Place:
    """A line of the user's in the reading of a sample, or the hottest one of a loop."""

    line: Line
    function: str
    inside: str
    """the function that it spends its time in; empty: none that Python sees"""
    seconds: float

    @property
    def described(self) -> str:
        """ "PngDataset.__getitem__ (Image.convert)"."""
        return f"{self.function} ({self.inside})" if self.inside else self.function


class Reading:
    """What was seen while batches were read; each look is made when it is first asked for."""

    def __init__(self, context: Context, reader: Reader) -> None:
        self._context = context
        self.reader = reader

    @cached_property
    def sample_s(self) -> float:
        """Seconds that one process takes for a sample, its share of collating included."""
        return self._run()[0]

    def _run(self) -> tuple[float, int]:
        """Read for a while; return seconds a sample, and the samples."""
        clock = time.perf_counter
        began, samples, batches = clock(), 0, 0
        while (batches < MIN_BATCHES and clock() - began < 4 * LOOK_S) or (
            clock() - began < LOOK_S and samples < MAX_SAMPLES
        ):
            read = self.reader.batch()
            if not read:
                break
            samples, batches = samples + read, batches + 1
        return (clock() - began) / max(1, samples), samples

    @cached_property
    def seen(self) -> Seen:
        """What reading did: files, decodes, archives."""
        before = _bytes_read()
        with watching() as seen:
            seen.sample_s, seen.samples = self._run()
        after = _bytes_read()
        seen.bytes_read = max(0, after - before) if before and after else 0
        return seen

    @cached_property
    def chains(self) -> Chains:
        """Where the time goes."""
        return _sample_chains(self._run)

    def fraction(self, seconds: float) -> float:
        """Return the part of a sample's time that so many seconds of it are."""
        return min(1.0, seconds / max(self.seen.sample_s, 1e-9))

    def gain(self, fraction: float, *, saved_bytes: int = 0) -> Gain:
        """Return the gain of saving this part of the time in which one process loads a batch."""
        ceilings = self._context.ceilings
        workers = self._context.session.workers
        one_process_s = workers * ceilings.loader_s if workers else ceilings.wait_s
        share = self._context.share_of_loading(fraction * one_process_s)
        return Gain(share=share, basis=Basis.BOUND if share else Basis.NONE, saved_bytes=saved_bytes)


def _bytes_read() -> int:
    try:
        return int(IO.read_text().split()[1])  # "rchar: N": what read calls returned, the page cache's included
    except (OSError, ValueError, IndexError):
        return 0


def _sample_chains(work: Callable[[], object]) -> Chains:
    """Run `work` in this thread and sample where it is; each sample counts the time since the one before.

    A call that keeps the interpreter's lock is seen once, at its end: by its time it still counts in full.
    """
    found: Chains = Counter()
    own = sys._getframe()

    def look(frame: FrameType, since_s: float) -> None:
        found[_chain(frame, own)] += since_s  # type: ignore[assignment]

    sample_frames(work, look)
    return found


def _chain(frame: FrameType | None, end: FrameType) -> tuple[tuple[tuple[Line, str], ...], str]:
    chain: list[tuple[Line, str]] = []
    called = ""
    while frame is not None and frame is not end:
        code = frame.f_code
        if users(code.co_filename):
            chain.append((Line(code.co_filename, frame.f_lineno), code.co_qualname))
        elif not chain:
            called = code.co_qualname  # of the library's frames, the one that the user's line called
        frame = frame.f_back
    return tuple(reversed(chain)), called if chain else ""
