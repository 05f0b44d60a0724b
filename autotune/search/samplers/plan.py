"""The trials that a search begins with, before the model decides: anchors."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from optuna.distributions import IntDistribution

from autotune.config import Config
from autotune.options.space import Space
from autotune.search.model.belief import Belief
from autotune.search.observation import Observation
from autotune.search.samplers.distributions import distributions, holds
from autotune.search.samplers.history import History

BASELINE_TRIALS = 2  # a pair shows the noise
REPLICATE_EVERY = 10  # trials between later replicates of the baseline, which show drift
FINEST = 6  # batch sizes filled in between two neighbours of the ladder, at most
SAFE = 0.8  # probability of fitting at which the largest batch is tried early
STEPS_IN_TRIAL = 25  # of a trial whose steps are slow: warm-up, a dozen blocks, cached compute
DEAR = 4.0  # times the wall time of the expert's trial: so much may the early trial of a large batch take at most


def next_anchor(space: Space, history: History) -> Config | None:
    """Return the next config that is due whatever the model says, or None.

    A due baseline that lies beside the flat space is not proposed: the caller measures it.
    """
    tried = history.configs
    if holds(space, space.baseline) and baseline_due(history.seen, space.baseline):
        return space.baseline
    expert = expert_at_baseline(space)
    if expert not in tried and holds(space, expert) and space.legal(expert) is None:
        return expert
    return None


def baseline_due(seen: Sequence[Observation], baseline: Config) -> bool:
    """Return whether the baseline is to be measured (again); never once it failed."""
    own = [trial for trial in seen if trial.config == baseline]
    if any(not trial.outcome.measured for trial in own):
        return False
    due = BASELINE_TRIALS + len(seen) // REPLICATE_EVERY
    return len(own) < due and (not seen or len(seen) % REPLICATE_EVERY < 2)


def expert_at_baseline(space: Space) -> Config:
    """Return the expert's settings at the baseline's batch size."""
    expert = space.expert()
    batch = space.baseline.get("batch_size")
    if batch is None or batch not in space.choices.get("batch_size", ()):
        return expert
    return space.canonical(expert.replace(batch_size=batch))


def largest_fitting(space: Space, history: History, belief: Belief) -> Config | None:
    """Return the expert's settings at the largest batch that surely fits and is not dear; None once one was tried."""
    start = expert_at_baseline(space)
    if "batch_size" not in start or start not in history.configs:
        return None
    ran = [trial.config for trial in history.seen if trial.outcome.measured]
    if start not in ran:
        return None
    base = int(start["batch_size"])
    sizes = sorted(int(size) for size in space.choices["batch_size"] if base < int(size) <= _affordable(start, history))
    larger = [start.replace(batch_size=size) for size in sizes]
    if not larger or any(config in history.configs for config in larger):
        return None
    fits = belief.fits(belief.encoding.rows(larger))
    safe = [config for config, fit in zip(larger, fits, strict=True) if fit >= SAFE and space.legal(config) is None]
    return safe[-1] if safe else None


def _affordable(start: Config, history: History) -> float:
    """Return the batch size whose trial takes DEAR times as long as that of `start`, at the same time per sample."""
    trial = next(trial for trial in history.seen if trial.config == start and trial.outcome.measured)
    if not trial.cost_s or not trial.sample_s:
        return math.inf
    return DEAR * trial.cost_s / (STEPS_IN_TRIAL * trial.sample_s)


def sizes_between(space: Space, history: History) -> list[int]:
    """Return batch sizes of the flat space that lie beside those measured, up to the next choice on either side."""
    grid = distributions(space).get("batch_size")
    if not isinstance(grid, IntDistribution):
        return []
    choices = sorted(int(size) for size in space.choices["batch_size"])
    found: set[int] = set()
    for config in history.configs:
        size = int(config.get("batch_size", 0))
        for low, high in itertools.pairwise(choices):
            if low <= size <= high:
                inside = range(low + grid.step, high, grid.step)
                found.update(inside[:: max(1, -(-len(inside) // FINEST))])
    return sorted(size for size in found if space.legal(Config(batch_size=size)) is None)
