"""The trials that a search begins with, before the model decides: anchors."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from optuna.distributions import IntDistribution

from autotune.config import Config
from autotune.options.space import Space
from autotune.records import Outcome
from autotune.search.model.belief import Belief
from autotune.search.observation import Observation
from autotune.search.samplers.distributions import distributions, holds
from autotune.search.samplers.history import History

BASELINE_TRIALS = 2  # a pair shows the noise
REPLICATE_EVERY = 10  # trials between later replicates of the baseline, which show drift
FINEST = 6  # batch sizes filled in between two neighbours of the ladder, at most
SAFE = 0.8  # probability of fitting at which the largest batch is tried early


def next_anchor(space: Space, history: History) -> Config | None:
    """Return the next config that is due whatever the model says, or None.

    A due baseline that lies beside the flat space is not proposed: the caller measures it.
    """
    tried = history.configs
    if holds(space, space.baseline) and baseline_due(history.seen, space.baseline):
        return space.baseline
    expert = expert_at_baseline(space, history)
    if expert not in tried and holds(space, expert) and space.legal(expert) is None:
        return expert
    return smaller_baseline(space, history)


def smaller_baseline(space: Space, history: History) -> Config | None:
    """Return the baseline at half the batch that ran out of memory, while nothing was measured; None: no way to.

    Nothing is known of memory then but that it did not suffice: larger batches would be tried blindly.
    """
    too_large = smallest_too_large(history)
    if too_large is None or any(trial.outcome.measured for trial in history.seen):
        return None
    sizes = sorted(int(size) for size in space.choices.get("batch_size", ()) if int(size) < too_large)
    halves = [size for size in sizes if size <= too_large / 2] or sizes[:1]
    smaller = [space.canonical(space.baseline.replace(batch_size=size)) for size in halves[::-1]]
    fine = (item for item in smaller if holds(space, item) and space.legal(item) is None)
    return next((item for item in fine if item not in history.configs), None)


def smallest_too_large(history: History) -> int | None:
    """Return the smallest batch size that ran out of memory; None: none did."""
    return min((int(seen.config.get("batch_size", 1)) for seen in history.seen if seen.fits is False), default=None)


def baseline_due(seen: Sequence[Observation], baseline: Config) -> bool:
    """Return whether the baseline is to be measured (again); never once it failed."""
    own = [trial for trial in seen if trial.config == baseline]
    if any(not trial.outcome.measured for trial in own):
        return False
    due = BASELINE_TRIALS + len(seen) // REPLICATE_EVERY
    return len(own) < due and (not seen or len(seen) % REPLICATE_EVERY < 2)


def expert_at_baseline(space: Space, history: History) -> Config:
    """Return the expert's settings at the baseline's batch size, or at the choice that is nearest to it.

    Uncompiled where compiling them did not work.
    """
    expert = space.expert()
    batch, choices = space.baseline.get("batch_size"), space.choices.get("batch_size", ())
    if batch is not None and choices:
        nearest = min(choices, key=lambda size: abs(math.log(int(size) / int(batch))))
        expert = space.canonical(expert.replace(batch_size=nearest))
    if any(trial.config == expert and trial.outcome is Outcome.UNSUPPORTED for trial in history.seen):
        compiling = [option for option in space.options() if option.start_s(expert.value(option.name), space.context)]
        return space.canonical(expert.replace(**{option.name: option.default for option in compiling}))
    return expert


def largest_fitting(space: Space, history: History, belief: Belief) -> Config | None:
    """Return the expert's settings at the largest batch that surely fits and is not dear; None once one was tried."""
    start = expert_at_baseline(space, history)
    if "batch_size" not in start or start not in history.configs:
        return None
    ran = [trial.config for trial in history.seen if trial.outcome.measured]
    if start not in ran:
        return None
    base = int(start["batch_size"])
    sizes = sorted(int(size) for size in space.choices["batch_size"] if int(size) > base)
    larger = [space.canonical(start.replace(batch_size=size)) for size in sizes]
    if not larger or any(config in history.configs for config in larger):
        return None
    rows = belief.encoding.rows(larger)
    good = (belief.fits(rows) >= SAFE) & belief.affordable(rows)
    safe = [config for config, fine in zip(larger, good, strict=True) if fine and space.legal(config) is None]
    return safe[-1] if safe else None


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
