"""A dataset that reads each sample once: the samples lie in shared memory, for all loader workers alike.

The memory is that of two files without a name (memfd_create), which fork, fork server and spawn pass on and which
no limit of /dev/shm touches: one holds where each sample begins, the other the samples, one after the other. A
sample is read from there with pread, so that its pages count in no process's resident size, and once in `nbytes`.
"""

from __future__ import annotations

import fcntl
import io
import mmap
import os
import pickle
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import context, reduction
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import IterableDataset, Subset

from autotune.device import on_host
from autotune.errors import text_of
from autotune.machine import available_bytes
from autotune.random_numbers import kept_random_numbers

SHARE = 0.8  # of the memory that is free when the cache is made: beyond it, samples are read each time
WORD = 8  # bytes of a place in the index: one aligned store, which no other process sees half done
LOOKED_AT = 16  # samples that are read several times, to see whether they stay the same
READS = 4  # of each: a flip with probability one half stays the same in one of eight then, in all 16 never


class Cached:
    """A map-style dataset whose samples are kept after they were first read.

    Everything else that the dataset has is here, too. Samples come back as copies of what was read: the same types,
    values, shapes and strides.
    """

    def __init__(self, dataset: Any, store: Store | None = None) -> None:
        vars(self).update(dataset=dataset, store=store or Store(len(dataset)))

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: Any) -> Any:
        if not self.store.holds(index):
            return self.dataset[index]
        data = self.store.read(index)
        if data is not None:
            return decode(data)
        sample = self.dataset[index]
        self.store.write(index, encode(sample))
        return sample

    def __getattr__(self, name: str) -> Any:
        if name in ("dataset", "store"):  # not there yet while being unpickled
            raise AttributeError(name)
        if name == "__getitems__" and hasattr(self.dataset, name):
            return self._read_several
        return getattr(self.dataset, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.dataset, name, value)  # what a worker_init_fn sets is for the user's own code

    def __reduce__(self) -> Any:
        return type(self), (self.dataset, self.store)

    def _read_several(self, indices: Sequence[Any]) -> list[Any]:
        """Return the samples of a batch; those not kept yet are read at once, as the dataset can."""
        held = {index: self.store.read(index) if self.store.holds(index) else None for index in indices}
        missing = [index for index, data in held.items() if data is None]
        fresh = dict(zip(missing, self.dataset.__getitems__(missing), strict=True)) if missing else {}
        for index, sample in fresh.items():
            if self.store.holds(index):
                self.store.write(index, encode(sample))
        return [fresh[index] if data is None else decode(data) for index in indices if (data := held[index]) or True]


class Store:
    """Byte strings by number, written once each, in memory that processes share."""

    def __init__(self, length: int, limit_bytes: int | None = None) -> None:
        """Keep up to `length` of them, in `limit_bytes` at most; None: a share of what is free."""
        self.length = length
        self.limit_bytes = int(SHARE * available_bytes()) if limit_bytes is None else limit_bytes
        self.cycle: Sequence[int] | None = None
        """the samples that stand for all others, while a trial measures; None: each stands for itself"""
        size = WORD * (length + 1)
        index, self._data = os.memfd_create("autotune-index"), os.memfd_create("autotune-samples")
        os.ftruncate(index, size)
        self._open(index)

    def _open(self, index: int) -> None:
        self._index_file = index
        self._lock = threading.Lock()
        self._index = np.frombuffer(mmap.mmap(index, WORD * (self.length + 1)), dtype=np.int64)

    def holds(self, index: Any) -> bool:
        """Whether a sample may be kept: those a plain number names."""
        return isinstance(index, int | np.integer) and 0 <= int(index) < self.length

    @property
    def nbytes(self) -> int:
        """Bytes of memory that are taken."""
        return sum(os.fstat(file).st_blocks * 512 for file in (self._index_file, self._data))

    @property
    def count(self) -> int:
        """Samples that are kept."""
        return int(np.count_nonzero(self._index[1:]))

    def read(self, index: int) -> bytes | None:
        """Return what was written under a number, or None."""
        place = int(self._index[1 + self._stand_in(index)])
        if place == 0:
            return None
        # the first word is for how long the rest is
        size = int.from_bytes(os.pread(self._data, WORD, place - WORD), "little")
        return os.pread(self._data, size, place)

    def write(self, index: int, data: bytes) -> None:
        """Keep bytes under a number, unless they are there already or do not fit any more."""
        slot = 1 + self._stand_in(index)
        with self._exclusively():
            end = int(self._index[0])
            if self._index[slot] or end + WORD + len(data) > self.limit_bytes:
                return
            self._index[0] = end + WORD + len(data)
        os.pwrite(self._data, len(data).to_bytes(WORD, "little") + data, end)
        self._index[slot] = end + WORD  # only now do others see it

    def _stand_in(self, index: int) -> int:
        return int(index) if self.cycle is None else self.cycle[int(index) % len(self.cycle)]

    @contextmanager
    def _exclusively(self) -> Iterator[None]:
        with self._lock:  # a file's lock is a process's, so that threads need one of their own
            fcntl.lockf(self._data, fcntl.LOCK_EX)
            try:
                yield
            finally:
                fcntl.lockf(self._data, fcntl.LOCK_UN)

    def __del__(self) -> None:
        for file in (vars(self).get("_index_file"), vars(self).get("_data")):
            if file is not None:
                os.close(file)

    def __reduce__(self) -> Any:
        if context.get_spawning_popen() is None:
            return Store, (self.length, self.limit_bytes)  # a copy elsewhere begins empty
        files = reduction.DupFd(self._index_file), reduction.DupFd(self._data)
        return _reopened, (self.length, self.limit_bytes, self.cycle, *files)


def _reopened(length: int, limit_bytes: int, cycle: Sequence[int] | None, index: Any, data: Any) -> Store:
    """Return the store of another process, in a worker that is being started."""
    store = Store.__new__(Store)
    store.length, store.limit_bytes, store.cycle, store._data = length, limit_bytes, cycle, data.detach()
    store._open(index.detach())
    return store


class _Pickler(pickle.Pickler):
    """Writes a tensor as its own bytes: torch's way takes longer, and takes the whole storage of a view along."""

    def reducer_override(self, item: Any) -> Any:
        plain = type(item) is Tensor and item.layout is torch.strided and on_host(item)
        if not plain or vars(item) or item.requires_grad or item.is_quantized or item.is_conj() or item.is_neg():
            return NotImplemented
        if not _dense(item):
            item = item.contiguous()
        flat = item.as_strided((item.numel(),), (1,))
        data = pickle.PickleBuffer(flat.view(torch.uint8).numpy()) if item.numel() else b""
        return _tensor, (data, item.dtype, tuple(item.shape), item.stride())


def _dense(item: Tensor) -> bool:
    """Whether a tensor fills its stretch of memory without gaps or overlaps, in whatever order of dimensions."""
    expected = 1
    for stride, size in sorted(zip(item.stride(), item.shape, strict=True)):
        if size == 1:
            continue
        if stride != expected:
            return False
        expected *= size
    return True


def _tensor(data: Any, dtype: torch.dtype, shape: tuple[int, ...], stride: tuple[int, ...]) -> Tensor:
    if not data:
        return torch.empty_strided(shape, stride, dtype=dtype)
    own = data if isinstance(data, bytearray) else bytearray(data)
    return torch.frombuffer(own, dtype=dtype).as_strided(shape, stride)


def encode(sample: Any) -> bytes:
    """Return a sample as bytes, from which `decode` makes an equal one."""
    buffer = io.BytesIO()
    _Pickler(buffer, protocol=5).dump(sample)
    return buffer.getvalue()


def decode(data: bytes) -> Any:
    return pickle.loads(data)  # written by this program, into memory that nobody else can open


def looked_at(length: int) -> list[int]:
    """Return the samples that tell whether a dataset can be kept: spread over all of it."""
    return sorted({round(step * (length - 1) / max(1, LOOKED_AT - 1)) for step in range(LOOKED_AT)})


def why_not_cached(dataset: Any, within: Callable[[], bool] = lambda: True) -> tuple[str | None, int]:
    """Return why a dataset's samples cannot be kept, or None, and the bytes of one of them.

    Reads some samples several times, a first one always and the rest as long as `within` says so. What code draws at
    random meanwhile, it draws again later.
    """
    if isinstance(dataset, IterableDataset) or not hasattr(dataset, "__getitem__"):
        return "the dataset is a stream: its samples have no numbers to keep them under", 0
    sizes: list[int] = []
    with kept_random_numbers():
        for index in looked_at(len(dataset)):
            try:
                reads = [encode(dataset[index]) for _ in range(READS)]
            except Exception as error:
                return f"sample {index} cannot be kept: {type(error).__name__}: {text_of(error)}", 0
            if len(set(reads)) > 1:
                return f"two reads of sample {index} differ: the dataset draws at random, and would no longer", 0
            sizes.append(len(reads[0]) + WORD)
            if not within():
                break
    return None, round(sum(sizes) / len(sizes)) + WORD


class Caches:
    """The caches of one training: one for each dataset, however often a loader is made over it."""

    def __init__(self) -> None:
        self._made: list[Cached] = []
        self._refused: list[Any] = []

    @property
    def stores(self) -> list[Store]:
        return [item.store for item in self._made]

    def over(self, dataset: Any) -> Any:
        """Return the dataset with its samples kept; itself, with a warning, where that would change them.

        Part of a dataset that is kept is kept with it.
        """
        if isinstance(dataset, Cached):
            return dataset
        if type(dataset) is Subset:
            return Subset(self.over(dataset.dataset), dataset.indices)
        for item in self._made:
            if item.dataset is dataset:
                return item
        if any(item is dataset for item in self._refused):
            return dataset
        reason, _ = why_not_cached(dataset, within=lambda: False)
        if reason is not None:
            self._refused.append(dataset)
            warnings.warn(f"cache_dataset is left out: {reason}", stacklevel=4)
            return dataset
        self._made.append(Cached(dataset))
        return self._made[-1]
