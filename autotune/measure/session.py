"""What the phases of one trial share: the training, its stream of batches, the clock, and what was seen so far."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sized
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor
from torch.utils.data import (
    DataLoader,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

from autotune.batches import shapes, tensors
from autotune.compiling import Compiles, so_far
from autotune.device import Device
from autotune.measure.memory import HostMemory
from autotune.measure.stream import Fetched, Stream
from autotune.measure.training import Training
from autotune.records import Compilation, Limits
from autotune.samples import SampleCounter, epoch_batches
from autotune.tuned import TunedLoader

OF_TORCH = (SequentialSampler, RandomSampler, SubsetRandomSampler, WeightedRandomSampler, DistributedSampler)
"""samplers that yield indices"""
RECENT_STEPS = 5
KEPT_LOSSES = 8


def _say_nothing(phase: str, figures: dict[str, Any]) -> None:
    pass


def _nothing() -> float:
    return 0.0


@dataclass(kw_only=True)
class Session:
    """One trial as its phases see it."""

    training: Training
    device: Device
    limits: Limits
    dataset_length: int | None = None
    fixed_batch: bool = False
    """the batch size has no effect, so that each batch counts as the baseline's"""
    progress: Callable[[str, dict[str, Any]], None] = _say_nothing
    """called with the name of a phase and figures to show"""
    clock: Callable[[], float] = time.perf_counter
    left_out: Callable[[], float] = _nothing
    """seconds that the clock has left out so far: a script's own evaluations"""
    compiles: Callable[[], Compiles] = so_far
    """what torch.compile did in this process until now"""
    flags: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    """that each phase took, by the names of `Phases`"""
    losses: list[Tensor] = field(default_factory=list)
    """of the first steps, and the last one"""
    recent: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=RECENT_STEPS))
    """seconds of the last warm-up steps, and of these the wait for the batch"""
    tokens_per_sample: float | None = None
    loader_s: float | None = None
    """seconds a batch of the loader alone"""

    def __post_init__(self) -> None:
        config = self.training.config
        self.workers = int(config.value("num_workers"))
        self.accumulation = int(config.value("accumulation"))
        self.queue = self.workers * int(config.value("prefetch_factor"))
        self.ahead = int(self.training.loader.ahead is not None)
        """batches that wait on the device beside the one that the step works on"""
        self.host_memory = HostMemory()
        self.stream = self.open_stream(self.training.loader, self.dataset_length)
        self._compiled_before = self.compiles()
        self.compiled_first = self._compiled_before
        """what was compiled when the first step was done"""
        self._shapes: set[tuple[tuple[int, ...], ...]] = set()

    @property
    def plain_loader(self) -> bool:
        """Whether the loader is a DataLoader made here over samples, so that another can be made over a part."""
        workload = self.training.workload
        return (
            workload.loader is None
            and not workload.pre_batched
            and not isinstance(self.training.dataset, IterableDataset)
        )

    @property
    def divisible(self) -> bool:
        """Whether a loader over the first samples can be made: they are counted, and asked for by index."""
        return self.plain_loader and isinstance(self.training.dataset, Sized) and not self.own_sampler

    @property
    def own_sampler(self) -> bool:
        """Whether a sampler of the user's says what is asked for, which need be no indices as torch's own yield."""
        sampler = getattr(self.training.loader.host, "sampler", None)
        return sampler is not None and not isinstance(sampler, OF_TORCH)

    @property
    def drops_last(self) -> bool:
        """Whether an epoch leaves out a last batch that is not full."""
        return self.training.workload.drop_last or drops_last(self.training.loader.host)

    def open_stream(self, loader: TunedLoader, length: int | None) -> Stream:
        """Return a stream over a loader of `length` samples."""
        workload = self.training.workload
        host: Any = loader.host
        counter = SampleCounter(
            self.training.batch_size,
            dataset_length=length,
            steps_per_epoch=epoch_batches(host) if isinstance(host, DataLoader) else None,
            drop_last=workload.drop_last or drops_last(host),
            fixed=self.fixed_batch or workload.pre_batched,
            count=workload.count_samples,
        )
        return Stream(loader.source, counter, self.clock)

    def step(self, fetched: Fetched) -> None:
        """Train on a batch; keeps the first losses and the last one."""
        if fetched.boundary_s is not None:
            self.training.end_epoch()
        loss = self.training.step(self.training.loader.place(fetched.batch), fetched.samples)
        if loss is not None:
            if len(self.losses) > KEPT_LOSSES:
                self.losses.pop()
            self.losses.append(loss)

    def look_at(self, batch: Any) -> None:
        """Note the shapes of a batch: never inside a timed block."""
        self._shapes.add(shapes(batch))
        first = next(tensors(batch), None)
        if first is not None and first.dim() == 2 and not first.is_floating_point():
            self.tokens_per_sample = float(first.size(1))  # a batch of sequences of token numbers

    def shapes_vary(self) -> bool:
        """Whether batches differ in more than the first dimension, which the last batch of an epoch explains."""
        return len({tuple(shape[1:] for shape in found) for found in self._shapes}) > 1

    def compilation(self) -> Compilation | None:
        """Return what was compiled since the session was opened; None: nothing."""
        now, before = self.compiles(), self._compiled_before
        if now == before:
            return None
        return Compilation(
            seconds=now.seconds - before.seconds,
            graphs=now.graphs - before.graphs,
            recompilations=now.graphs - self.compiled_first.graphs,
            cached=now.cached,
        )

    def start_s(self, known_compile_s: float = 0.0) -> float:
        """Return the seconds until training runs at its pace, once warm-up is over.

        Args:
            known_compile_s: what compiling takes without a warm cache, where that is known; it counts in full.
        """
        now = self.compiles().seconds
        later_s = now - self.compiled_first.seconds
        spared_s = max(0.0, known_compile_s - (now - self._compiled_before.seconds))
        done_s = self.seconds.get("build_s", 0.0) + self.stream.first_batch_s + self.seconds.get("first_step_s", 0.0)
        return done_s + later_s + spared_s

    def stay_in_epoch(self, steps: int) -> None:
        """Where fewer than `steps` batches are left, run through to the next epoch, untimed."""
        left = self.stream.left_in_epoch()
        if left is not None and left < steps:
            for _ in range(left + 1):
                self.step(self.stream.next())

    def flag(self, name: str) -> None:
        if name not in self.flags:
            self.flags.append(name)


def drops_last(host: Any) -> bool:
    """Whether a loader of the user's own leaves out a last batch that is not full."""
    return any(getattr(item, "drop_last", False) for item in (host, getattr(host, "batch_sampler", None)))
