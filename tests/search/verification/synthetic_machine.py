"""A machine that measures nothing: times come from a formula and a seeded noise, the clock is a counter."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from autotune.config import Config
from autotune.records import Failure, Measurement, Outcome, Peaks, TrialRecord

WINDOW_S = 6.0


class SyntheticMachine:
    """Stands in for trials in fresh processes.

    `true_s` gives a config's time per sample; `noise` gives the log error of the n-th window; `flags` its flags;
    `failures` says which configs fail, and how.
    """

    def __init__(
        self,
        true_s: Callable[[Config], float] = lambda config: 1.0,
        noise: Callable[[int], float] = lambda index: 0.0,
        *,
        flags: Callable[[int], tuple[str, ...]] = lambda index: (),
        failures: Mapping[Config, str] | None = None,
        peaks: Callable[[Config], int] = lambda config: 1000,
    ) -> None:
        self.true_s, self.noise, self.flags, self.peaks = true_s, noise, flags, peaks
        self.failures = dict(failures or {})
        self.now_s = 0.0
        self.configs: list[Config] = []
        self.labels: list[str] = []

    def clock(self) -> float:
        return self.now_s

    def measure(self, config: Config, label: str) -> TrialRecord:
        index = len(self.configs)
        self.configs.append(config)
        self.labels.append(label)
        self.now_s += WINDOW_S
        common = {"number": index, "config": dict(config), "started_at": self.now_s, "wall_s": WINDOW_S}
        if config in self.failures:
            failure = Failure(reason=self.failures[config])
            return TrialRecord(**common, outcome=Outcome.CRASHED, failure=failure)
        sample_s = self.true_s(config) * math.exp(self.noise(index))
        peaks = Peaks(host=self.peaks(config))
        found = Measurement(
            sample_s=sample_s,
            step_s=32 * sample_s,
            uncertainty=0.02,
            samples_per_step=32.0,
            wait_s=0.0,
            compute_s=None,
            loader_s=None,
            epoch_overhead_s=0.0,
            epoch_overhead_estimated=False,
            steps_per_epoch=None,
            samples_per_epoch=None,
            lifetime=peaks,
            steady=peaks,
            blocks=(),
            kept_from=0,
            autocorrelation=0.0,
            mean_step_s=32 * sample_s,
            p95_step_s=32 * sample_s,
            flags=self.flags(index),
            losses=(),
            updates=10,
        )
        return TrialRecord(**common, outcome=Outcome.OK, measurement=found)


def white(seed: int, sd: float) -> Callable[[int], float]:
    """Return independent normal noise."""
    rng = np.random.default_rng(seed)
    return lambda index: float(rng.normal(0, sd))


def linear(seed: int, sd: float, slope: float) -> Callable[[int], float]:
    """Return noise on a machine that slows down by `slope` a window."""
    rng = np.random.default_rng(seed)
    return lambda index: slope * index + float(rng.normal(0, sd))


def wandering(seed: int, sd: float, step: float) -> Callable[[int], float]:
    """Return noise on a machine whose speed is a random walk."""
    rng = np.random.default_rng(seed)
    walk = np.cumsum(rng.normal(0, step, 200))
    return lambda index: float(walk[index] + rng.normal(0, sd))
