"""The user's functions inside the reading of a sample that return the same on every read of it."""

from __future__ import annotations

import hashlib
import sys
import time
from collections import defaultdict
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any

from autotune.caching import encode
from autotune.doctor.lines import Line, users

if TYPE_CHECKING:
    from autotune.doctor.reading import Reader

SAMPLES = 4
READS = 4
MAX_CALLS = 64  # of one function in a sample: more of them are no stage
GENERATOR = 0x20 | 0x80 | 0x200  # inspect.CO_GENERATOR, CO_COROUTINE, CO_ASYNC_GENERATOR


@dataclass(frozen=True)
class Stage:
    """A function whose result is the same on every read."""

    name: str
    line: Line
    """of its definition"""
    fraction: float
    """of a sample's time, what it calls included"""
    bytes: int
    """of its results for one sample"""


@dataclass
class _Call:
    code: CodeType
    began: float
    inside: list[_Call] = field(default_factory=list)
    seconds: float = 0.0
    digest: bytes | None = None
    bytes: int = 0


def stable_stages(reader: Reader) -> list[Stage]:
    """Return the outermost functions whose results are the same on every read of a few samples."""
    fractions: defaultdict[CodeType, float] = defaultdict(float)
    sizes: defaultdict[CodeType, int] = defaultdict(int)
    indices = reader.indices(SAMPLES)
    for index in indices:
        reads = [_traced(reader.dataset, index) for _ in range(READS)]
        total = sum(seconds for _, seconds in reads) / READS
        for call in _stable([calls for calls, _ in reads]):
            fractions[call.code] += call.seconds / total / len(indices)
            sizes[call.code] += call.bytes // len(indices)
    return [
        Stage(code.co_name, Line(code.co_filename, code.co_firstlineno), min(1.0, fraction), sizes[code])
        for code, fraction in fractions.items()
    ]


def _traced(dataset: Any, index: int) -> tuple[list[_Call], float]:
    """Read a sample; return the calls of the user's functions, as a tree, and the seconds without the looking."""
    root = _Call(_traced.__code__, 0.0)
    open_calls, paused = [root], 0.0

    def note(frame: FrameType, event: str, value: Any) -> None:
        nonlocal paused
        code = frame.f_code
        if event not in ("call", "return") or code.co_flags & GENERATOR or not users(code.co_filename):
            return
        at = time.perf_counter()
        if event == "call":
            call = _Call(code, at - paused)
            open_calls[-1].inside.append(call)
            open_calls.append(call)
        elif len(open_calls) > 1 and open_calls[-1].code is code:
            call = open_calls.pop()
            call.seconds = at - paused - call.began
            call.digest, call.bytes = _digest(value)
        paused += time.perf_counter() - at

    began = time.perf_counter()
    sys.setprofile(note)
    try:
        dataset[index]
    finally:
        sys.setprofile(None)
    return root.inside, max(1e-9, time.perf_counter() - began - paused)


def _digest(value: Any) -> tuple[bytes | None, int]:
    if value is None:
        return None, 0  # what it did is not in its result
    try:
        data = encode(value)
    except Exception:  # cannot be kept, and so not done once
        return None, 0
    return hashlib.sha256(data).digest(), len(data)


def _stable(reads: list[list[_Call]]) -> list[_Call]:
    """Return the outermost calls that return the same in every read; the reads make the same calls there."""
    found: list[_Call] = []
    by_code: list[defaultdict[CodeType, list[_Call]]] = []
    for calls in reads:
        grouped: defaultdict[CodeType, list[_Call]] = defaultdict(list)
        for call in calls:
            grouped[call.code].append(call)
        by_code.append(grouped)
    for code, first in by_code[0].items():
        others = [grouped[code] for grouped in by_code]
        if len({len(calls) for calls in others}) != 1 or len(first) > MAX_CALLS:
            continue
        for number, call in enumerate(first):
            same = [calls[number] for calls in others]
            if call.digest is not None and len({item.digest for item in same}) == 1:
                found.append(call)
            else:
                found += _stable([item.inside for item in same])
    return found
