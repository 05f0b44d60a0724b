"""Standard output that fails, on a full disk or since its reader is gone, must not end hours of measuring."""

from __future__ import annotations

import errno
import io
import os
import sys
from typing import Any

WRITES_FAILED = "standard output could not be written to"
FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
"""errors of a disk that takes no more"""


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
