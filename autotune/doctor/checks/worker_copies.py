"""Python objects in the dataset whose memory every loader process copies as it reads: copy-on-write ends at a count."""

from __future__ import annotations

import os
import struct
import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from torch.utils.data import Dataset

from autotune.doctor.context import MIN_MEMORY_SHARE, Context
from autotune.doctor.findings import Finding, Gain, Gives, Sureness
from autotune.doctor.lines import assignments
from autotune.doctor.reading import Reader
from autotune.measure.memory import own_bytes
from autotune.words.figures import memory

MANY = 10_000  # objects in one container
MIN_BYTES = 32 << 20  # copied by all workers together
SEEN_ITEMS = 200  # whose sizes stand for all
WARM = 32  # reads that fill what is filled once
LOOK_S = 1.5
MAX_READS = 2000
MIN_A_READ = 512  # bytes that the process grows by for each sample that it had not read before
DEPTH = 3


@dataclass(frozen=True)
class Held:
    """A container of many Python objects."""

    name: str
    owner: type
    attribute: str
    objects: int
    bytes: int


def check(context: Context) -> Iterator[Finding]:
    session, reading = context.session, context.reading
    if reading is None or not session.workers or reading.reader.iterable:
        return
    method = context.training.config.value("multiprocessing_context")
    held = max(containers(reading.reader.dataset), key=lambda one: one.bytes, default=None)
    if held is None or session.workers * held.bytes < MIN_BYTES:
        return
    forked = method not in ("spawn", "forkserver")
    grown = growth_per_read(reading.reader) if forked else 0.0
    if forked and grown < MIN_A_READ:
        return
    copied = held.bytes if not forked else int(min(held.bytes, grown * len(reading.reader.dataset)))
    saved = session.workers * copied
    if saved < max(MIN_BYTES, MIN_MEMORY_SHARE * context.peak_bytes):
        return
    how = f"a forked process grew by {memory(int(grown))} a sample" if forked else f"{method} sends it to each"
    yield Finding(
        check="worker_copies",
        gives=Gives.MEMORY,
        seen=f"{held.name} is {held.objects} Python objects, about {memory(held.bytes)}, "
        f"which each of {session.workers} workers comes to hold again: {how}",
        where=tuple(str(line) for line in assignments(held.owner, held.attribute)) or (held.name,),
        remedy=("keep it as one array: numpy.array(names), or bytes with an array of offsets; Arrow, numpy.memmap",),
        gain=Gain(saved_bytes=saved),
        sure=Sureness.LIKELY,
        why="reading an object writes its reference count, and the page that it lies on is copied",
    )


def containers(dataset: Any) -> Iterator[Held]:
    """Yield the containers of many objects that a dataset holds, with the bytes of what is in them."""
    pending: list[tuple[str, Any, int]] = [(type(dataset).__name__, dataset, 0)]
    while pending:
        name, item, depth = pending.pop()
        for key, value in vars(item).items() if hasattr(item, "__dict__") else ():
            if isinstance(value, list | tuple | set | dict) and len(value) >= MANY:
                bytes_ = _bytes(value)
                if bytes_:
                    yield Held(f"{name}.{key}", type(item), key, len(value), bytes_)
            elif isinstance(value, Dataset) and depth < DEPTH:
                pending.append((f"{name}.{key}", value, depth + 1))


def _bytes(container: Any) -> int:
    """Return the bytes of the objects in a container, from some of them; 0 where they are small numbers."""
    items = list(islice(container.items() if isinstance(container, dict) else container, SEEN_ITEMS))
    each = sum(_size(item, DEPTH) for item in items) / len(items)
    return int(each * len(container)) if each > 0 else 0


def _size(item: Any, depth: int) -> int:
    if item is None or isinstance(item, bool) or (isinstance(item, int) and -5 <= item <= 256):
        return 0  # one object for all
    size = sys.getsizeof(item)
    if isinstance(item, np.ndarray):
        return sys.getsizeof(item) - item.nbytes * item.flags.owndata  # what it holds has no counts
    if depth and isinstance(item, list | tuple | set):
        size += sum(_size(part, depth - 1) for part in islice(item, SEEN_ITEMS))
    elif depth and isinstance(item, dict):  # the keys are mostly the same objects in all of them
        size += sum(_size(part, depth - 1) for part in islice(item.values(), SEEN_ITEMS))
    return size


def growth_per_read(reader: Reader) -> float:
    """Return the bytes that a forked process comes to hold alone for each sample it had not read before."""
    receive, send = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # threads of torch's: the loader forks beside them, too
        pid = os.fork()
    if pid == 0:
        try:
            os.close(receive)
            os.write(send, struct.pack("d", _grown(reader)))
        finally:
            os._exit(0)
    os.close(send)
    with os.fdopen(receive, "rb") as answer:
        data = answer.read()
    os.waitpid(pid, 0)
    return float(struct.unpack("d", data)[0]) if len(data) == struct.calcsize("d") else 0.0


def _grown(reader: Reader) -> float:
    """Return what new samples cost beyond samples that were read before: a loader's own caches cost the same twice."""
    indices = reader.indices(MAX_READS)
    known, new = indices[:WARM], indices[WARM:]
    if not new:
        return 0.0
    for index in known:
        reader.dataset[index]
    end = time.perf_counter() + LOOK_S
    before, reads = own_bytes(os.getpid()), 0
    for index in new:
        reader.dataset[index]
        reads += 1
        if time.perf_counter() > end:
            break
    middle = own_bytes(os.getpid())
    for number in range(reads):
        reader.dataset[known[number % len(known)]]
    after = own_bytes(os.getpid())
    return max(0.0, (middle - before) - (after - middle)) / reads
