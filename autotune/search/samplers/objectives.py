"""What a search is after, as the expected gain of trying a config, relative to what it has.

Expected improvement: Mockus 1975; Jones, Schonlau, Welch, "Efficient global optimization", 1998. Two-
dimensional expected hypervolume improvement by strips: Emmerich, Yang, Deutz, "Infill criteria for
multiobjective Bayesian optimization", 2020.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autotune.search.aim import Aim
from autotune.search.model.belief import Belief, Outlook
from autotune.search.model.encoding import FloatArray

FRONT_AFTER = 6  # trials: the front needs a model and a fast config to start from; by simulation (synthetic)

Mask = npt.NDArray[np.bool_]


class Objective(ABC):
    """Decides between configs."""

    @abstractmethod
    def gain(self, belief: Belief, outlook: Outlook) -> FloatArray:
        """Return the expected relative gain of measuring each row of the outlook, if it fits and runs."""

    def gain_at(self, told: int, belief: Belief, outlook: Outlook) -> FloatArray:
        """Return the gain that the trial after `told` outcomes is chosen by."""
        return self.gain(belief, outlook)

    @abstractmethod
    def order(self, belief: Belief) -> list[int]:
        """Return the positions in `belief.measured` of feasible configs, best first."""


@dataclass(frozen=True)
class Throughput(Objective):
    """Smallest time per sample; a share of the trials builds the front of time and memory as well."""

    front_share: float = 0.4

    def gain(self, belief: Belief, outlook: Outlook) -> FloatArray:
        return expected_improvement(_best_time(belief), outlook.times)

    def gain_at(self, told: int, belief: Belief, outlook: Outlook) -> FloatArray:
        since = max(0, told - FRONT_AFTER)
        for_front = int((since + 1) * self.front_share) > int(since * self.front_share)
        if for_front and outlook.peaks.any():
            return hypervolume_gain(belief, outlook)
        return self.gain(belief, outlook)

    def order(self, belief: Belief) -> list[int]:
        return _by(belief.measured_times, belief.feasible)


@dataclass(frozen=True)
class Memory(Objective):
    """Smallest peak among the configs with at least `keep` of the best throughput."""

    keep: float = 0.95

    def gain(self, belief: Belief, outlook: Outlook) -> FloatArray:
        # the best throughput has to be known first: both gains count
        fast = (outlook.times <= _best_time(belief) / self.keep).mean(axis=0)
        order = self.order(belief)
        smallest = belief.measured_peaks[order[0]] if order else np.inf
        smaller = np.maximum(0.0, 1 - outlook.peaks / smallest) if outlook.peaks.any() else np.zeros(len(fast))
        return np.asarray(fast * smaller + expected_improvement(_best_time(belief), outlook.times))

    def order(self, belief: Belief) -> list[int]:
        feasible = [int(index) for index in np.flatnonzero(belief.feasible)]
        return Aim(self.keep).order(feasible, belief.measured_times.__getitem__, belief.measured_peaks.__getitem__)


@dataclass(frozen=True)
class Pareto(Objective):
    """The front of time per sample and peak memory: largest hypervolume."""

    def gain(self, belief: Belief, outlook: Outlook) -> FloatArray:
        if not outlook.peaks.any():
            return expected_improvement(_best_time(belief), outlook.times)
        return hypervolume_gain(belief, outlook)

    def order(self, belief: Belief) -> list[int]:
        found: list[int] = []
        for index in _by(belief.measured_times, belief.feasible):
            if not found or belief.measured_peaks[index] < belief.measured_peaks[found[-1]]:
                found.append(index)
        return found


@dataclass(frozen=True)
class Latency(Throughput):
    """Smallest time per sample and nothing beside it: the space holds one batch size, so that is the step's."""

    front_share: float = 0.0


OBJECTIVES: dict[str, type[Objective]] = {
    "throughput": Throughput,
    "memory": Memory,
    "pareto": Pareto,
    "latency": Latency,
}
"""by the name of `--objective`"""


def expected_improvement(best: float, times: FloatArray) -> FloatArray:
    """Return the mean over samples of the relative improvement on `best`; 1 where nothing is feasible yet."""
    if not np.isfinite(best):
        return np.ones(times.shape[1])
    return np.asarray(np.maximum(0.0, 1 - times / best).mean(axis=0))


def hypervolume_gain(belief: Belief, outlook: Outlook) -> FloatArray:
    """Return the expected growth of the area that the front dominates, relative to that area.

    The reference point is the slowest feasible time measured and the memory limit, or the largest peak. Memory counts
    by its logarithm: by its bytes, all that a small training could save would be nothing beside a large limit.
    """
    known = belief.feasible & (belief.measured_peaks > 0)
    if not known.any():
        return np.ones(outlook.times.shape[1])
    times, peaks = belief.measured_times[known], belief.measured_peaks[known]
    corner = float(times.max()), float(belief.limit_bytes or peaks.max())
    least = min(peaks.min(), outlook.peaks.min())
    # the front as strips of memory, each with the best time that this much memory buys so far
    edges = np.unique(np.append(peaks[peaks < corner[1]], [least, corner[1]]))
    area, gain = 0.0, np.zeros(outlook.times.shape[1])
    for low, high in itertools.pairwise(edges):
        reachable = times[peaks <= low]
        reached = float(reachable.min()) if len(reachable) else corner[0]
        area += np.log(high / low) * (corner[0] - reached)
        width = np.maximum(0.0, np.log(high / np.maximum(low, outlook.peaks)))
        gain += width * np.maximum(0.0, reached - outlook.times).mean(axis=0)
    scale = area if area > 0 else corner[0] * float(np.log(corner[1] / least))
    return gain / scale if scale > 0 else gain


def _best_time(belief: Belief) -> float:
    return float(belief.measured_times[belief.feasible].min()) if belief.feasible.any() else np.inf


def _by(values: FloatArray, among: Mask) -> list[int]:
    """Return the positions in `among`, smallest value first."""
    return [int(index) for index in np.argsort(values, kind="stable") if among[index]]
