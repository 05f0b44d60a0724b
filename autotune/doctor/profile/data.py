"""What a profile holds. Plain data, free of torch, since it crosses from a child process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One kind of operation of a step."""

    name: str
    """as torch calls it: "aten::addmm", or a kernel's name"""
    seconds: float
    """a step, inside the operation itself"""
    calls: float
    """a step"""
    share: float
    """of the time inside all operations, 0 to 1"""


@dataclass(frozen=True, kw_only=True)
class Profile:
    """A few steady steps under torch's profiler."""

    config: Mapping[str, object]
    device: str
    device_name: str
    steps: int
    step_s: float
    """seconds a step, the profiler not running"""
    samples_per_step: float
    operations: tuple[Operation, ...]
    """all, the heaviest first"""
    trace: str
    """file of the trace: JSON, gzipped"""
    trace_bytes: int

    def share(self, name: str) -> float:
        """Return the share of the operation called `name`; 0 where there was none."""
        return next((one.share for one in self.operations if one.name == name), 0.0)


@dataclass(frozen=True, kw_only=True)
class Profiles:
    """All that `autotune profile` found."""

    before: Profile
    after: Profile | None = None
    """under a config; None: none was given"""

    def heaviest(self, count: int) -> list[str]:
        """Return the operations that take most, in either."""
        most: dict[str, float] = {}
        for profile in (self.before, self.after):
            for one in profile.operations if profile is not None else ():
                most[one.name] = max(one.share, most.get(one.name, 0.0))
        return sorted(most, key=lambda name: -most[name])[:count]
