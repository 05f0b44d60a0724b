"""Where a command writes: files that are there are kept, and standard output that fails ends no hours of measuring."""

from __future__ import annotations

import errno
import io
import os
import sys
from pathlib import Path
from typing import Any

from autotune.errors import UsageError

WRITES_FAILED = "standard output could not be written to"
FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
"""errors of a disk that takes no more"""


def check_unused(path: Path, *, force: bool) -> None:
    """Refuse to overwrite a file unasked; that a folder cannot be overwritten is said when it is tried.

    Raises:
        UsageError: the file is there, and `force` is not given.
    """
    if os.path.exists(path) and not os.path.isdir(path) and not force:
        raise UsageError(f"{path} exists", hint="--force overwrites it.")


class Lenient(io.FileIO):
    """Writes to a descriptor until that fails, and to nowhere from then on."""

    failure: OSError | None = None

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            self.failure = error
            discard(self.fileno())
            return memoryview(data).nbytes


def discard(descriptor: int) -> None:
    """Let what is written to a descriptor go nowhere; what waits in buffers, too."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, descriptor)
    os.close(nothing)


def outlive_output() -> None:
    """Go on where standard output fails; `lost_output` says so at the end. One that is no file stays as it is."""
    stream = sys.stdout
    if stream is None or stream is not sys.__stdout__ or not isinstance(stream, io.TextIOWrapper):
        return
    stream.flush()
    raw = Lenient(stream.fileno(), "w", closefd=False)
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(raw), encoding=stream.encoding, errors=stream.errors, line_buffering=stream.line_buffering
    )


def lost_output() -> OSError | None:
    """Return why standard output was given up, or None."""
    stream = sys.stdout
    if not isinstance(stream, io.TextIOWrapper):
        return None
    stream.flush()
    raw = getattr(stream.buffer, "raw", None)
    return raw.failure if isinstance(raw, Lenient) else None
