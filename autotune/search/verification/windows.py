"""Windows of a verification: one fresh process each, taken one by one, within the time there is."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from autotune.config import Config
from autotune.records import HARD_FLAGS, TrialRecord

Measure = Callable[[Config, str], TrialRecord]
"""measures a config in a fresh process by a plan fixed beforehand; the text says for people which window it is"""

AGAIN = ", again"
"""ends the text of a window that is measured in the place of one that failed or was disturbed"""

HARD_SHARE = 1 / 3  # of the windows; with more of them disturbed no verdict is given


@dataclass(frozen=True, kw_only=True)
class Window:
    """One measured window, in raw figures; `trial` names its full record."""

    stage: str
    """"choose", "claim", "attribute", "confirm" """
    round: int
    arm: str
    """role in the stage, as "baseline" """
    config: Mapping[str, Any]
    trial: int
    """number of the trial's record"""
    started_at: float
    """seconds since the epoch"""
    wall_s: float
    sample_s: float | None = None
    """seconds a sample: median of the window's blocks plus the epoch's share; None: the window failed"""
    step_s: float | None = None
    flags: tuple[str, ...] = ()
    disturbed: bool = False
    """whether one of the flags is a hard one"""
    peak_bytes: int = 0
    """of the memory that decides whether the config fits, over the whole life of the window's process"""
    allocated_bytes: int = 0
    """steady peak of live tensors on the accelerator"""
    host_bytes: int = 0
    """steady peak of the processes"""
    sm_clock_mhz: int = 0
    """of the card, median; 0: unknown"""
    failure: str = ""
    """why the window yields nothing"""
    instead_of: int | None = None
    """number of the trial that failed or was disturbed, and that this one was measured in the place of"""


class Bench:
    """Takes windows and keeps the time."""

    def __init__(
        self,
        measure: Measure,
        *,
        deadline_s: float = math.inf,
        clock: Callable[[], float] = time.monotonic,
        window_s: float = 0.0,
    ) -> None:
        """`deadline_s` is a reading of `clock`; `window_s` is expected of windows as long as none was measured."""
        self._measure = measure
        self._clock = clock
        self._window_s = window_s
        self._cost_s: dict[Config, float] = {}
        self.deadline_s = deadline_s

    def remaining_s(self) -> float:
        return self.deadline_s - self._clock()

    def part(self, share: float) -> Bench:
        """Return a bench that may use a share of the time left; it knows what windows have cost."""
        now = self._clock()
        part = Bench(
            self._measure, deadline_s=now + share * (self.deadline_s - now), clock=self._clock, window_s=self._window_s
        )
        part._cost_s = self._cost_s
        return part

    def cost_s(self, configs: Iterable[Config]) -> float:
        """Return the expected time of one window of each: as the last one of that config, else the longest."""
        unknown = max(self._cost_s.values(), default=self._window_s)
        return sum(self._cost_s.get(config, unknown) for config in configs)

    def affords(self, configs: Iterable[Config]) -> bool:
        """Return whether one more window of each can be expected to end in time."""
        return self.cost_s(configs) <= self.remaining_s()

    def take(self, config: Config, *, stage: str, round: int, rounds: int, arm: str) -> Window:
        """Measure one window; one that fails or is disturbed is measured once more, which counts in its place.

        Whether it was disturbed is told by flags, never by its time, so that this favours neither arm.
        """
        label = f"{stage} {round + 1}/{rounds}: {arm}"
        record, replaced = self._timed(config, label), None
        if not _sound(record) and self.affords([config]):
            replaced = record.number
            record = self._timed(config, label + AGAIN)
        found = record.measurement
        common: dict[str, Any] = {
            "stage": stage,
            "round": round,
            "arm": arm,
            "config": dict(config),
            "trial": record.number,
            "started_at": record.started_at,
            "wall_s": record.wall_s,
            "instead_of": replaced,
        }
        if found is None or not record.outcome.measured:
            reason = record.failure.reason if record.failure else record.outcome.value.replace("_", " ")
            return Window(**common, failure=reason or record.outcome.value)
        return Window(
            **common,
            sample_s=found.sample_s,
            step_s=found.step_s,
            flags=found.flags,
            disturbed=found.disturbed,
            peak_bytes=found.lifetime.needed(accelerator=found.lifetime.reserved > 0),
            allocated_bytes=found.steady.allocated,
            host_bytes=max(found.steady.host, found.steady.tree_pss),
            sm_clock_mhz=found.sm_clock_mhz,
        )

    def _timed(self, config: Config, label: str) -> TrialRecord:
        before = self._clock()
        record = self._measure(config, label)
        self._cost_s[config] = self._clock() - before
        return record


def _sound(record: TrialRecord) -> bool:
    return record.outcome.measured and record.measurement is not None and not record.measurement.disturbed


def disturbances(windows: Collection[Window]) -> str:
    """Return why too many windows were disturbed for a verdict, or nothing."""
    disturbed = [window for window in windows if window.disturbed]
    if len(disturbed) <= HARD_SHARE * len(windows):
        return ""
    seen = sorted({flag for window in disturbed for flag in window.flags if flag in HARD_FLAGS})
    return f"environment: {len(disturbed)} of {len(windows)} windows disturbed ({', '.join(seen)})"
