"""Many small files: opening them takes longer than reading them from one would. Technique 22."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from itertools import pairwise

from autotune.doctor.context import Context
from autotune.doctor.findings import Finding, Gives, Sureness, counted
from autotune.doctor.timing import quickest
from autotune.words.figures import memory, percent

MAX_FILES = 200
MAX_BYTES = 32 << 20
MIN_OPENS = 0.9  # a sample
MIN_FILES = 8  # that were seen: fewer are opened again and again, and packed already


def check(context: Context) -> Iterator[Finding]:
    reading = context.reading
    if reading is None or context.worth(reading.gain(1.0)) is None:
        return
    seen = reading.seen
    opens = sum(seen.opens.values()) / max(1, seen.samples)
    paths = existing(list(seen.files))
    if opens < MIN_OPENS or len(paths) < MIN_FILES:
        return
    saved_s = opens * saved_by_packing(paths)
    gain = reading.gain(reading.fraction(saved_s))
    if context.worth(gain) is None:
        return
    where = [line for line, _ in seen.opens.most_common()]
    yield Finding(
        check="many_files",
        gives=Gives.SPEED,
        seen=f"a sample opens {counted(round(opens), 'file', 'files')} and reads "
        f"{memory(seen.bytes_read // max(1, seen.samples))}; opening takes {percent(reading.fraction(saved_s))} of it",
        where=tuple(str(line) for line in where),
        remedy=("pack them into one file (LMDB, HDF5, an uncompressed tar, one array for numpy.memmap)",),
        gain=gain,
        sure=Sureness.LIKELY,
        why=f"{len(paths)} of these files were read one by one, and again out of one file",
    )


def existing(paths: list[str]) -> list[str]:
    """Return some of the regular files of a list, so many as are read quickly."""
    found: list[str] = []
    size = 0
    for path in paths[:MAX_FILES]:
        try:
            size += os.path.getsize(path)
        except OSError:
            continue
        if size > MAX_BYTES and found:
            break
        found.append(path)
    return found


def saved_by_packing(paths: list[str]) -> float:
    """Return the seconds a file that reading it out of one large file saves, the page cache warm."""
    contents = [_read(path) for path in paths]
    offsets = [0]
    for content in contents:
        offsets.append(offsets[-1] + len(content))
    with tempfile.TemporaryFile() as packed:
        packed.writelines(contents)
        packed.flush()
        descriptor = packed.fileno()

        def apart() -> None:
            for path in paths:
                _read(path)

        def together() -> None:
            for begin, end in pairwise(offsets):
                os.pread(descriptor, end - begin, begin)

        return max(0.0, quickest(apart) - quickest(together)) / len(paths)


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()
