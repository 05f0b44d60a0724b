"""The trials that a search begins with, before the model decides: anchors."""

from __future__ import annotations

from autotune.config import Config
from autotune.options.space import Space
from autotune.search.model.belief import Belief
from autotune.search.samplers.distributions import holds
from autotune.search.samplers.history import History

BASELINE_TRIALS = 2  # a pair shows the noise
REPLICATE_EVERY = 10  # trials between later replicates of the baseline, which show drift
SAFE = 0.8  # probability of fitting at which the largest batch is tried early


def next_anchor(space: Space, history: History) -> Config | None:
    """Return the next config that is due whatever the model says, or None.

    A due baseline that lies beside the flat space is not proposed: the caller measures it.
    """
    baseline, tried = space.baseline, history.configs
    due = BASELINE_TRIALS + len(tried) // REPLICATE_EVERY
    if tried.count(baseline) < due and (not tried or len(tried) % REPLICATE_EVERY < 2) and holds(space, baseline):
        return baseline
    expert = expert_at_baseline(space)
    if expert not in tried and holds(space, expert) and space.legal(expert) is None:
        return expert
    return None


def expert_at_baseline(space: Space) -> Config:
    """Return the expert's settings at the baseline's batch size."""
    expert = space.expert()
    batch = space.baseline.get("batch_size")
    if batch is None or batch not in space.choices.get("batch_size", ()):
        return expert
    return space.canonical(expert.replace(batch_size=batch))


def largest_fitting(space: Space, history: History, belief: Belief) -> Config | None:
    """Return the expert's settings at the largest batch that surely fits; None once one was tried."""
    start = expert_at_baseline(space)
    if "batch_size" not in start or start not in history.configs:
        return None
    ran = [trial.config for trial in history.seen if trial.outcome.measured]
    if start not in ran:
        return None
    base = int(start["batch_size"])
    sizes = sorted(int(size) for size in space.choices["batch_size"] if int(size) > base)
    larger = [start.replace(batch_size=size) for size in sizes]
    if not larger or any(config in history.configs for config in larger):
        return None
    fits = belief.fits(belief.encoding.rows(larger))
    safe = [config for config, fit in zip(larger, fits, strict=True) if fit >= SAFE and space.legal(config) is None]
    return safe[-1] if safe else None
