"""Synthetic workloads: the true time and peak memory of every config, and what a noisy trial of one shows.

Nothing here comes from the sampler's model. Every figure is drawn at random around what the literature and vendors'
guides report for GPUs; a `Kind` says which of the model's assumptions an instance breaks.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from options import BASE_BATCH, CHOICES, CORES, make_space

from autotune.config import Config
from autotune.records import Outcome
from autotune.search.observation import Observation

Array = npt.NDArray[np.float64]

NAMES = tuple(CHOICES)
STEP = 8
BATCHES = np.arange(STEP, 257, STEP)
GRID = tuple(len(BATCHES) if name == "batch_size" else len(CHOICES[name]) for name in NAMES)
EAGER_TRIAL_S, COMPILING_S = 12.0, 25.0


@dataclass(frozen=True, kw_only=True)
class Kind:
    """How a set of instances differs from the plain one."""

    interactions: float = 1.0
    """standard deviation of the pairwise interactions, against the plain instances"""
    bumpy_batches: bool = False
    """the time of a sample rises and falls with the batch size, in jumps"""
    curved_memory: bool = False
    """memory grows with a power of the batch size and in steps"""
    wrong_priors: bool = False
    """effects have nothing to do with what the options expect"""
    noise: float = 1.0
    """against the plain instances"""


KINDS = {
    "plain": Kind(),
    "strong interactions": Kind(interactions=3.0),
    "jumping batches": Kind(bumpy_batches=True),
    "curved memory": Kind(curved_memory=True),
    "broken": Kind(interactions=3.0, bumpy_batches=True, curved_memory=True),
    "wrong priors": Kind(wrong_priors=True),
    "noise doubled": Kind(noise=2.0),
}


class Instance:
    """One workload. `time` (seconds a sample) and `peak` (bytes) hold the truth for every config of the fine grid."""

    def __init__(self, seed: int, kind: Kind) -> None:
        rng = np.random.default_rng([seed, 7])
        self.kind = kind
        self._noise = rng.uniform(0.03, 0.05) * kind.noise
        self._draw_times(rng)
        self._draw_memory(rng)
        self._draw_failures(rng)
        baseline_workers = int(rng.choice([0, 2]))
        start = self.index(Config(batch_size=BASE_BATCH, num_workers=0))
        self.space = make_space(baseline_workers, float(self.loader[start]), float(self.compute[start]))
        self.feasible = (self.peak <= self.limit) & ~self.failing
        self.optimum = float(self.time[self.feasible].min())

    def index(self, config: Config) -> tuple[int, ...]:
        """Return where a config stands in the grid."""
        places = []
        for name in NAMES:
            value = config.value(name)
            places.append(int(value) // STEP - 1 if name == "batch_size" else CHOICES[name].index(value))
        return tuple(places)

    def trial(self, config: Config, seed: int) -> Observation:
        """Return what one noisy trial of a config shows; the same seed shows the same."""
        at = self.index(config)
        rng = np.random.default_rng([seed, *at])
        cost = (EAGER_TRIAL_S + COMPILING_S * (config.value("toy_compile") != "off")) * rng.uniform(0.9, 1.1)
        limit = int(self.limit)
        if self.failing[at]:
            return Observation(config=config, outcome=Outcome.ERROR, limit_bytes=limit, cost_s=cost)
        if self.peak[at] > self.limit:
            return Observation(config=config, outcome=Outcome.OUT_OF_MEMORY, limit_bytes=limit, cost_s=cost)
        # a trial's processes share a good part of their luck; some are plainly disturbed
        shared, *own = self._noise * rng.standard_normal(4) * (0.8, 0.6, 0.6, 0.6)
        disturbed = rng.uniform(1.1, 1.4) if rng.random() < 0.04 else 1.0
        total, compute, loader = np.exp(shared + np.array(own)) * (disturbed, 1.0, 1.0)
        return Observation(
            config=config,
            outcome=Outcome.OK,
            sample_s=float(self.time[at] * total),
            compute_s=float(self.compute[at] * compute),
            loader_s=float(self.loader[at] * loader),
            contention_s=float(self.contention[at] * compute),
            uncertainty=self._noise,
            peak_bytes=int(self.peak[at] * np.exp(0.005 * rng.standard_normal())),
            limit_bytes=limit,
            cost_s=float(cost),
        )

    def _draw_times(self, rng: np.random.Generator) -> None:
        compute, loader = np.zeros(GRID), np.zeros(GRID)
        fixed = rng.uniform(0.05, 0.5)  # of a sample's time at the baseline's batch: launches, Python
        batch = np.log(1 - fixed + fixed * BASE_BATCH / BATCHES) + rng.uniform(0, 0.03) * np.log2(BATCHES / 32).clip(0)
        if self.kind.bumpy_batches:
            # work comes in waves of so many samples, the last one partly empty; and beyond some size a cache
            # overflows or the library takes another algorithm
            wave, weight = rng.choice([24, 32, 48, 64]), rng.uniform(0.1, 0.4)
            batch = batch + np.log(1 + weight * (np.ceil(BATCHES / wave) * wave / BATCHES - 1))
            batch = batch + rng.uniform(0.0, 0.15) * (rng.choice(CHOICES["batch_size"][4:]) <= BATCHES)
        compute += _along("batch_size", batch)
        segments = rng.uniform(0.8, 1.2) * np.log(1 + np.array([0, 0.5, 1.0]) / 3)
        for name, centres, spread in (
            ("precision", [0, -0.35, -0.3], 0.2),
            ("channels_last", [0, -0.08], 0.1),
            ("toy_compile", [0, -0.15, -0.18], 0.12),
            ("pin_memory", [0, -0.03], 0.03),
        ):
            effect = np.array(centres) + spread * rng.standard_normal(len(centres)) * (np.arange(len(centres)) > 0)
            if self.kind.wrong_priors:
                effect = -effect
            compute += _along(name, effect)
        compute += _along("checkpoint_segments", segments)
        workers = np.array(CHOICES["num_workers"], dtype=float)
        scaling = rng.uniform(0.75, 1.0)  # 1: workers share nothing
        speed = np.where(workers > 0, 0.1 - scaling * np.log(workers.clip(1)), 0.0)
        if self.kind.wrong_priors:  # more workers get into each other's way: a disk, a lock
            speed = np.where(workers > 0, 0.1 - 0.4 * np.log(workers.clip(1)), 0.0)
        loader += _along("num_workers", speed)
        loader += _along("batch_size", rng.uniform(-0.03, 0.01) * np.log2(BATCHES / 32))
        loader += _along("prefetch_factor", 0.02 * rng.standard_normal(3))
        loader += _along("pin_memory", np.array([0.0, 0.02]))
        compute_side = ("batch_size", "precision", "channels_last", "checkpoint_segments", "toy_compile", "pin_memory")
        self._interact(rng, compute, compute_side)
        self._interact(rng, loader, ("batch_size", "num_workers", "prefetch_factor", "pin_memory"))
        compute += 0.01 * rng.standard_normal((*GRID[:6], 1, 1))
        unit = rng.uniform(1e-4, 1e-2)
        self.compute = unit * np.exp(compute)
        # in-process loading takes between a tenth and three times the compute
        self.loader = _inert_prefetch(unit * np.exp(rng.uniform(np.log(0.1), np.log(3.0)) + loader))
        overload = np.maximum(0, (workers + 1) / CORES - 1)
        self.contention = self.compute * _along("num_workers", rng.uniform(0.0, 0.5) * overload)
        norm = rng.uniform(6, 20)
        beside = ((self.compute + self.contention) ** norm + self.loader**norm) ** (1 / norm)
        self.time = np.where(_along("num_workers", workers) > 0, beside, self.compute + self.loader)

    def _interact(self, rng: np.random.Generator, log_time: Array, names: tuple[str, ...]) -> None:
        """Add pairwise interactions: smooth along the batch size, of any shape elsewhere."""
        for left, right in itertools.combinations(names, 2):
            sd = 0.02 * self.kind.interactions
            table = sd * rng.standard_normal((len(CHOICES[left]), len(CHOICES[right])))
            if left == "batch_size":
                slope = np.log2(BATCHES / BASE_BATCH) / 3  # 1 at the largest
                log_time += _along(left, slope) * _along(right, table[0])
            else:
                shape = [1] * len(NAMES)
                shape[NAMES.index(left)], shape[NAMES.index(right)] = table.shape
                log_time += (table if NAMES.index(left) < NAMES.index(right) else table.T).reshape(shape)

    def _draw_memory(self, rng: np.random.Generator) -> None:
        growing, fixed = np.zeros(GRID), np.zeros(GRID)
        for name, centres, spread in (
            ("precision", [0, -0.45, -0.45], 0.15),
            ("channels_last", [0, 0.02], 0.02),
            ("checkpoint_segments", [0, -0.4, -0.8], 0.12),
            ("toy_compile", [0, -0.1, -0.05], 0.08),
        ):
            own = np.arange(len(centres)) > 0
            growing += _along(name, np.array(centres) + spread * rng.standard_normal(len(centres)) * own)
            fixed += _along(name, 0.04 * rng.standard_normal(len(centres)) * own)
        power = 1 + rng.uniform(-0.12, 0.12) if self.kind.curved_memory else 1.0
        activations = np.exp(growing) * _along("batch_size", BASE_BATCH * (BATCHES / BASE_BATCH) ** power)
        ratio = np.exp(rng.uniform(np.log(0.3), np.log(4.0)))  # fixed part against activations at the baseline
        peak = np.broadcast_to(ratio * BASE_BATCH * np.exp(fixed) + activations, GRID)
        if self.kind.curved_memory:  # allocators round up
            peak = np.exp(np.ceil(np.log(peak) / 0.06) * 0.06)
        self.peak = peak * 1e8 / BASE_BATCH
        # between a quarter and six tenths of all configs do not fit, yet the baseline does
        limit = float(np.quantile(self.peak, rng.uniform(0.4, 0.75)))
        start = self.index(Config(batch_size=BASE_BATCH))
        self.limit = max(limit, 1.1 * float(self.peak[start]))

    def _draw_failures(self, rng: np.random.Generator) -> None:
        """One value in one instance of five never works."""
        self.failing = np.zeros(GRID, dtype=bool)
        if rng.random() < 0.2:
            name, value = [("toy_compile", "overhead"), ("precision", "fp16")][rng.integers(2)]
            at = [slice(None)] * len(NAMES)
            at[NAMES.index(name)] = slice(CHOICES[name].index(value), CHOICES[name].index(value) + 1)
            self.failing[tuple(at)] = True


def _along(name: str, values: Array) -> Array:
    """Return values of one option, shaped to be added along its axis of the grid."""
    shape = [1] * len(NAMES)
    shape[NAMES.index(name)] = len(values)
    return np.asarray(values, dtype=float).reshape(shape)


def _inert_prefetch(loader: Array) -> Array:
    """Without workers the prefetch factor has no effect: the first one's figures stand for all."""
    axis = NAMES.index("num_workers")
    loader = loader.copy()
    without = [slice(None)] * len(NAMES)
    without[axis] = slice(0, 1)
    loader[tuple(without)] = loader[tuple(without)][..., :1]
    return loader
