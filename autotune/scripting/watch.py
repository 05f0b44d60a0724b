"""How a script trains, as it shows while it runs by itself for some updates."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from autotune.errors import ScriptError
from autotune.facts import ScriptFacts
from autotune.measure.validity import ChangeWatch
from autotune.scripting import endings
from autotune.scripting.driver import Driver
from autotune.scripting.loaders import SeenLoader
from autotune.scripting.losses import leaves_of
from autotune.scripting.models import parameters_of
from autotune.workload.find import EXAMPLE

MIN_UPDATES = 4
MAX_UPDATES = 24  # a GAN's generator may be updated far less often than its discriminator
MAX_WATCH_S = 3.0  # for more than the least updates
MAX_WITHOUT_UPDATE = 24  # backward passes, where parameters change nevertheless
MAX_DOUBT_S = 30.0  # for seeing whether a loader is asked again that gave a batch, however many updates that brings
BATCH_NAMES = ("batch_size", "batch", "bs", "batchsize", "train_batch_size", "micro_batch_size")


def watch(driver: Driver, script: Path) -> None:
    """Let the script make some updates, or show that it makes them without an optimizer."""
    began, by_hand = 0.0, _ByHand(driver)

    def enough() -> bool:
        nonlocal began
        count = driver.updates.total()
        if not count:
            return by_hand.trains()
        began = began or time.perf_counter()
        in_doubt = any(seen.updates for seen in driver.loaders.seen) and not _training_loaders(driver)
        limit_s = MAX_DOUBT_S if in_doubt else MAX_WATCH_S
        seen_enough = count >= MAX_UPDATES and not (in_doubt and _half_read(driver))
        return count >= MIN_UPDATES and (seen_enough or time.perf_counter() - began > limit_s)

    driver.watch(enough)
    if not driver.updates and driver.losses.last is not None:
        raise ScriptError(
            f"{script.name} makes backward passes and no update of an optimizer of torch.optim: where its steps end "
            "does not show",
            hint=f"It may change its parameters itself; torch.optim.SGD does the same. Or:\n{EXAMPLE}",
        )
    if not driver.updates:
        raise endings.never_trains(script.name, driver.outside.processes, driver.checkpoints)


class _ByHand:
    """Tells whether a script changes what it trains without an optimizer; asked before each backward pass."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._leaves: list[Tensor] = []
        """of the first pass, where no module has parameters"""
        self._changes = ChangeWatch({})

    def trains(self) -> bool:
        losses = self._driver.losses
        if losses.count == 1:
            parameters = parameters_of(self._driver.models.models)
            # beside modules, leaves may be inputs: those of an attack change in each pass
            self._leaves = [] if parameters else leaves_of(losses.starts)
            self._changes = ChangeWatch(parameters or {str(number): item for number, item in enumerate(self._leaves)})
        return losses.count % MAX_WITHOUT_UPDATE == 0 and (self._changes.changed() or self._made_anew())

    def _made_anew(self) -> bool:
        """Whether a step trains other tensors than the first, as where it returns changed ones."""
        first = {id(item) for item in self._leaves}
        return bool(first) and first.isdisjoint(map(id, leaves_of(self._driver.losses.starts)))


def how_it_trains(driver: Driver, main: Any) -> ScriptFacts:
    """Return what a watched script showed; `main` is its module."""
    training = max(_training_loaders(driver), key=lambda seen: (seen.updates, -seen.number), default=None)
    counts = driver.updates
    rarest = min(counts, key=lambda number: (counts[number], -number))
    per_step = max(1, round(counts.total() / counts[rarest]))
    if training is not None:
        passes = training.root.passes
        fetched = sum(seen.fetched for seen in driver.loaders.seen if seen.again(training))
        return ScriptFacts(
            loader=training.root.number,
            made_at=training.root.made_at,
            beside=_read_beside(training, driver.loaders.seen),
            optimizer=rarest,
            updates_per_step=max(1, round(passes.updates_of_turns / max(1, passes.turns))),
            batches_per_update=max(1, round(fetched / max(counts.values()))),
        )
    models = max(1, len(driver.models.models))
    forwards = max(1, round(driver.forwards / models / max(counts.values())))
    batch = _own_batch(main, driver)
    samples = 1 if batch is None else batch * forwards
    return ScriptFacts(
        optimizer=rarest,
        updates_per_step=per_step,
        samples_per_step=samples,
        no_loader=_why_no_loader(driver),
    )


def _training_loaders(driver: Driver) -> list[SeenLoader]:
    """Return the loaders that the script trains on: from others it has read its data in, before it began to train."""
    too_few_to_tell = driver.updates.total() < MIN_UPDATES
    return [seen for seen in driver.loaders.seen if seen.updates and (seen.root.passes.comes_back or too_few_to_tell)]


def _half_read(driver: Driver) -> list[SeenLoader]:
    """Return the loaders that were read before an update, and not to their end: the script may train long on a batch.

    One that gave all that it has in one batch, and whose iterator is gone, was read in.
    """
    return [seen for seen in driver.loaders.seen if seen.updates and seen.half_read]


def _why_no_loader(driver: Driver) -> str:
    """Return why a step is not one on a loader's batch, where the script has a loader that it may well train on."""
    for seen in _half_read(driver):
        return f"{_place(seen)} was read before the updates that were seen, and not between them"
    for seen in driver.loaders.seen:
        if seen.read_in_thread:
            return f"{_place(seen)} is read in a thread other than the main one, where autotune cannot hold it"
    return ""


def _place(seen: SeenLoader) -> str:
    return f"the loader of {seen.made_at or 'a library'}"


def _read_beside(training: SeenLoader, loaders: list[SeenLoader]) -> str:
    """Return the loader over other data that most updates had a batch of, too; empty where there is none.

    One that is read now and then, or to evaluate, is none.
    """
    passes = training.root.passes
    others = [seen for seen in loaders if not seen.again(training) and seen.root.passes.trained_as(passes)]
    own = sum(seen.updates for seen in loaders if seen.again(training))
    if 2 * sum(seen.updates for seen in others) < own or not others:
        return ""
    return _place(max(others, key=lambda seen: seen.updates))


def _own_batch(main: Any, driver: Driver) -> int | None:
    """Return the batch size by the script's own variable, where a model was called with as many samples to train."""
    # beside its own names, what argparse and config classes leave in the main module
    inside = (getattr(value, "__dict__", None) for value in vars(main).values())
    places = [vars(main), *(place for place in inside if isinstance(place, Mapping))]
    known = [value for place in places for name, value in place.items() if str(name).lower() in BATCH_NAMES]
    sizes = [value for value in known if isinstance(value, int) and value in driver.input_sizes]
    return sizes[0] if sizes else None
