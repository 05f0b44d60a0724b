"""Filling the cache of samples before a trial measures: steady state is every epoch but the first.

A large dataset is filled in part, for a few seconds, and the samples that are there stand for all: the loader reads
as many, in the same order, only others. What the rest would have taken is reckoned from these, once, as start-up.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from autotune.caching import Cached
from autotune.measure.session import Session

FILL_S = 5.0
FEWEST = 64  # samples that may stand for all
TOLD_EVERY = 32  # samples between two messages of progress


@dataclass(frozen=True)
class Filling:
    """What keeping all samples of the training takes."""

    seconds: float = 0.0
    """for reading each of them once, by as many processes as the loader has"""
    nbytes: int = 0
    """of host memory, shared by all processes"""


def fill(session: Session) -> Filling:
    """Fill the cache of the training's dataset, where it has one."""
    dataset = getattr(session.training.loader.host, "dataset", None)
    if not isinstance(dataset, Cached):
        return Filling()
    length, store, began = len(dataset), dataset.store, session.clock()
    fewest = min(length, max(FEWEST, 2 * session.training.batch_size))
    order = [int(index) for index in np.random.default_rng(0).permutation(length)]
    read = 0
    for read, index in enumerate(order, start=1):
        dataset[index]
        if read % TOLD_EVERY == 0:
            session.progress("cache", {"samples": read})
        if read >= fewest and session.clock() - began > FILL_S:
            break
    took = session.clock() - began
    session.seconds["cache_s"] = took
    filling = Filling(took / read * length / max(1, session.workers), round(store.nbytes / read * length))
    if read < length:
        store.cycle = order[:read]
        session.flag("cache_filled_in_part")
    return filling
