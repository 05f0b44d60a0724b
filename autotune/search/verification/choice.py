"""V1: which finalist is best, by a few interleaved rounds over all of them. It chooses; it never claims.

The best of many noisy trials is partly lucky. Four fresh rounds of the five best remove most of that: simulated at
5 % noise, the choice is 0.7 % from the best instead of 2.4 %.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autotune.config import Config
from autotune.search.verification.claim import BASELINE
from autotune.search.verification.design import Design
from autotune.search.verification.schedule import mirrored
from autotune.search.verification.statistics import MIN_PAIRS, Verdict, compare
from autotune.search.verification.windows import Bench, Window


@dataclass(frozen=True, kw_only=True)
class Dropped:
    """A finalist that could not be measured again."""

    config: Mapping[str, Any]
    stage: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Ranked:
    """A finalist's place after the choice."""

    config: Mapping[str, Any]
    sample_s: float | None = None
    """geometric mean of its windows; None where there was no time for a round"""
    peak_bytes: int = 0
    """largest peak of its windows, of the memory that decides whether it fits"""
    tied: bool = False
    """whether its rounds do not tell it from the first"""


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The finalists in order, best first."""

    ranking: tuple[Ranked, ...]
    dropped: tuple[Dropped, ...] = ()
    seed: int
    windows: tuple[Window, ...] = ()

    @property
    def baseline_s(self) -> float | None:
        """Seconds a sample of the baseline: the geometric mean of its windows; None where there was no round."""
        return _mean([found.sample_s for found in self.windows if found.arm == BASELINE and found.sample_s])


def choose(bench: Bench, baseline: Config, finalists: Sequence[Config], design: Design, seed: int) -> Choice:
    """Rank `finalists` (distinct, the search's best first) by mean ln(time per sample) over complete rounds.

    One finalist needs no choice. Without time for one round the search's order stays.
    """
    if len(finalists) < 2:
        return Choice(ranking=tuple(Ranked(config=dict(config)) for config in finalists), seed=seed)
    arms = {BASELINE: baseline} | {f"finalist {place}": found for place, found in enumerate(finalists, 1)}
    windows: list[Window] = []
    dropped: dict[str, Dropped] = {}
    complete = 0
    for index, order in enumerate(mirrored(list(arms), design.choose_rounds, seed)):
        live = [arm for arm in order if arm not in dropped]
        if not bench.affords(arms[arm] for arm in live):
            break
        for arm in live:
            window = bench.take(arms[arm], stage="choose", round=index, rounds=design.choose_rounds, arm=arm)
            windows.append(window)
            if window.failure:
                dropped[arm] = Dropped(config=dict(arms[arm]), stage="choose", reason=window.failure)
        complete += 1
    times = {arm: _times(windows, arm, complete) for arm in arms if arm not in dropped and arm != BASELINE}
    order_found = sorted(times, key=lambda arm: sum(math.log(time_s) for time_s in times[arm]))
    return Choice(
        ranking=tuple(_ranked(arms[arm], arm, times, order_found[0], windows) for arm in order_found),
        dropped=tuple(found for arm, found in dropped.items() if arm != BASELINE),
        seed=seed,
        windows=tuple(windows),
    )


def _times(windows: Sequence[Window], arm: str, rounds: int) -> list[float]:
    return [found.sample_s for found in windows if found.arm == arm and found.sample_s and found.round < rounds]


def _mean(times: Sequence[float]) -> float | None:
    return math.exp(sum(map(math.log, times)) / len(times)) if times else None


def _ranked(config: Config, arm: str, times: Mapping[str, list[float]], best: str, windows: Sequence[Window]) -> Ranked:
    own = [window for window in windows if window.arm == arm]
    found = times[arm]
    peak = max((window.peak_bytes for window in own), default=0)
    mean_s = _mean(found)
    if mean_s is None:
        return Ranked(config=dict(config), peak_bytes=peak)
    tied = arm != best and (len(found) < MIN_PAIRS or compare(found, times[best]).verdict is not Verdict.FASTER)
    return Ranked(config=dict(config), sample_s=mean_s, peak_bytes=peak, tied=tied)
