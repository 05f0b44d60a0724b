"""What the models believe after a search: for people who ask why."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from autotune.config import Config
from autotune.errors import ConfigError, RunFolderError
from autotune.options.base import Value
from autotune.options.space import Space
from autotune.records import RunInfo, TrialRecord
from autotune.search.info import space_of
from autotune.search.model import candidates
from autotune.search.model.belief import Belief
from autotune.search.model.encoding import Rows
from autotune.search.observation import counting, observe
from autotune.search.setup import deciding_limit

LIKELY = 0.5  # P(fits and runs) from which on a config is named: more likely than not
MEANS = np.zeros((1, 3))  # the normals of the posterior's means


@dataclass(frozen=True, kw_only=True)
class ValueEffect:
    """What one value is believed to do at the best config, all else equal."""

    option: str
    value: Value
    in_best: bool
    ratio: float
    """time per sample over that of the best config: below 1, this value is believed to be faster"""
    spread: float
    """standard deviation of the ratio's logarithm"""


@dataclass(frozen=True, kw_only=True)
class BatchMemory:
    """The memory line at one batch size, other options as in the best config."""

    batch_size: int
    peak_bytes: int
    """believed"""
    fits: float
    """probability"""
    measured_bytes: int | None
    """largest peak measured at this batch size under the same other options; None: not measured"""


@dataclass(frozen=True, kw_only=True)
class Expected:
    """A config and its time per sample, seconds."""

    config: Config
    sample_s: float
    spread: float
    """standard deviation of its logarithm; 0 where it was measured"""


@dataclass(frozen=True, kw_only=True)
class Explanation:
    effects: tuple[ValueEffect, ...]
    memory: tuple[BatchMemory, ...]
    limit_bytes: int
    best_measured: Expected
    best_expected: Expected | None
    """the config left that is believed to be fastest among those that likely fit; None: none is left"""


def explain(info: RunInfo, records: Sequence[TrialRecord], seed: int = 0) -> Explanation:
    """Return what the models believe after the search's trials (verification windows apart).

    Raises:
        RunFolderError: nothing was measured yet, or the run's description is damaged.
    """
    try:
        space = space_of(info)
    except (ValueError, ConfigError) as error:
        raise RunFolderError(f"damaged run.json: {error}") from None
    accelerator = space.context.facts.is_accelerator
    limit = deciding_limit(info.limits, accelerator)
    seen = counting(observe(record, Config(**record.config), limit, accelerator) for record in records)
    if not any(item.sample_s for item in seen):
        raise RunFolderError("nothing was measured in this run, so there is nothing to explain")
    belief = Belief(space, seen)
    usable = np.flatnonzero(belief.feasible) if belief.feasible.any() else np.arange(len(belief.measured))
    first = usable[np.argmin(belief.measured_times[usable])]
    best = belief.encoding.config(belief.measured[first])
    best_time = float(belief.measured_times[first])
    return Explanation(
        effects=tuple(_effects(space, belief, best)),
        memory=tuple(_memory_line(space, belief, best)),
        limit_bytes=limit,
        best_measured=Expected(config=best, sample_s=best_time, spread=0.0),
        best_expected=_best_left(belief, belief.measured[first], np.random.default_rng(seed)),
    )


def explain_if_measured(info: RunInfo, records: Sequence[TrialRecord], seed: int = 0) -> Explanation | None:
    """Return what the models believe, or None where nothing was measured that they could know something from."""
    measured = any(record.outcome.measured and record.measurement is not None for record in records)
    return explain(info, records, seed) if measured else None


def _effects(space: Space, belief: Belief, best: Config) -> list[ValueEffect]:
    effects = []
    own_row = belief.encoding.rows([best])
    own_time, own_spread = float(belief.outlook(own_row, MEANS).times[0, 0]), float(belief.time.spread(own_row)[0])
    for name, values in space.choices.items():
        if len(values) < 2 or name not in best:
            continue
        others = [space.canonical(best.replace(**{name: value})) for value in values]
        rows = belief.encoding.rows(others)
        times, spreads = belief.outlook(rows, MEANS).times[0], belief.time.spread(rows)
        for value, time, spread in zip(values, times, spreads, strict=True):
            same = value == best[name]
            effects.append(
                ValueEffect(
                    option=name,
                    value=value,
                    in_best=same,
                    ratio=1.0 if same else float(time) / own_time,
                    spread=0.0 if same else math.hypot(float(spread), own_spread),
                )
            )
    return effects


def _memory_line(space: Space, belief: Belief, best: Config) -> list[BatchMemory]:
    if belief.memory is None or "batch_size" not in best:
        return []
    measured = {
        belief.encoding.config(row): int(peak) for row, peak in zip(belief.measured, belief.measured_peaks, strict=True)
    }
    configs = [space.canonical(best.replace(batch_size=int(size))) for size in space.choices["batch_size"]]
    rows: Rows = belief.encoding.rows(configs)
    peaks, fits = np.exp(belief.memory.predict(rows)[0]), belief.fits(rows)
    return [
        BatchMemory(
            batch_size=int(config["batch_size"]),
            peak_bytes=int(peak),
            fits=float(chance),
            measured_bytes=measured.get(config),
        )
        for config, peak, chance in zip(configs, peaks, fits, strict=True)
    ]


def _best_left(belief: Belief, best: Rows, rng: np.random.Generator) -> Expected | None:
    """Return the config left that is believed to be fastest; `best` is the row whose neighbourhood counts."""
    rows = candidates.candidates(belief.encoding, best[None], rng)
    rows = candidates.without_conflicts(belief.encoding, candidates.without(belief.encoding, rows, belief.tried))
    outlook = belief.outlook(rows, MEANS)
    likely = outlook.fits * outlook.runs >= LIKELY
    if not likely.any():
        return None
    times = np.where(likely, outlook.times[0], np.inf)
    index = int(np.argmin(times))
    return Expected(
        config=belief.encoding.config(rows[index]),
        sample_s=float(times[index]),
        spread=float(belief.time.spread(rows[index : index + 1])[0]),
    )
