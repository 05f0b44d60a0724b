"""Storage that is slow where the page cache cannot hold the data. Technique 24."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

from autotune.doctor.checks.many_files import existing
from autotune.doctor.context import Context
from autotune.doctor.findings import Finding, Gives, Sureness
from autotune.machine import available_bytes
from autotune.words.figures import duration, memory

CHUNK = 1 << 20


def check(context: Context) -> Iterator[Finding]:
    reading = context.reading
    if reading is None or reading.reader.iterable or context.worth(reading.gain(1.0)) is None:
        return
    seen = reading.seen
    paths = existing(list(seen.files))
    opens = sum(seen.opens.values()) / max(1, seen.samples)
    if not paths or not opens:
        return
    size = seen.bytes_read // max(1, seen.samples) * len(reading.reader.dataset)
    room = available_bytes()
    if size < room:
        return  # cold once, in the first epoch
    read_seconds(paths)
    warm_s = read_seconds(paths)
    for path in paths:
        forget(path)
    cold_s = read_seconds(paths)
    extra_s = opens * max(0.0, cold_s - warm_s) / len(paths)
    gain = reading.gain(extra_s / (reading.sample_s + extra_s))
    if context.worth(gain) is None:
        return
    yield Finding(
        check="cold_reads",
        gives=Gives.SPEED,
        seen=f"a file takes {duration(cold_s / len(paths))} to read from storage and {duration(warm_s / len(paths))} "
        f"from memory; the data are about {memory(size)}, and {memory(room)} of memory are free",
        where=tuple(str(line) for line, _ in seen.opens.most_common()),
        remedy=("faster storage (a local NVMe disk), smaller files, or a machine whose memory holds them",),
        gain=gain,
        sure=Sureness.LIKELY,
        why=f"{len(paths)} of the files were read with and without the page cache",
    )


def forget(path: str) -> None:
    """Drop a file from the page cache."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


def read_seconds(paths: list[str]) -> float:
    """Return the seconds that reading these files takes."""
    began = time.perf_counter()
    for path in paths:
        with open(path, "rb", buffering=0) as file:
            while file.read(CHUNK):
                pass
    return time.perf_counter() - began
