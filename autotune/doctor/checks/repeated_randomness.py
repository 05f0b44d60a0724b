"""Random generators that every loader process copies, so that all draw the same, and the same again each epoch."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import torch

from autotune.doctor.context import Context
from autotune.doctor.findings import Finding, Gives
from autotune.doctor.lines import Line, assignments, assigns_to, find_nodes, users
from autotune.generators import KINDS, Held, held_by

READS = 8


def check(context: Context) -> Iterator[Finding]:
    session, reading = context.session, context.reading
    if reading is None or not session.workers or getattr(context.training.loader.host, "worker_init_fn", None):
        return
    persistent = bool(context.training.config.value("persistent_workers"))
    if session.workers == 1 and persistent:
        return
    held = list(generators(reading.reader.dataset))
    before = [_state(item.generator) for item in held]
    if not held:
        return
    if reading.reader.iterable:
        reading.reader.batch()
    else:
        for index in reading.reader.indices(READS):
            reading.reader.dataset[index]
    for item, state in zip(held, before, strict=True):
        if _state(item.generator) == state:
            continue
        again = [] if session.workers == 1 else [f"all {session.workers} workers draw the same numbers from it"]
        again += [] if persistent else ["they are the same again in every epoch"]
        yield Finding(
            check="repeated_randomness",
            gives=Gives.RESULT,
            seen=f"reading samples draws from the generator {item.name}, which every worker copies: "
            + " and ".join(again),
            where=tuple(str(line) for line in made_at(item)) or (item.name,),
            remedy=(
                "draw from torch's global generator (torch.rand), which the loader seeds in each worker, or",
                "seed it in worker_init_fn with torch.initial_seed()",
            ),
            why="the samples are varied less than they seem to be",
        )


def generators(dataset: Any) -> Iterator[Held]:
    """Yield the random generators that the dataset holds or the user's modules have."""
    seen: set[int] = set()
    for held in held_by(dataset):
        seen.add(id(held.generator))
        yield held
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if file and users(file):
            for key, value in list(vars(module).items()):
                if isinstance(value, KINDS) and id(value) not in seen:
                    seen.add(id(value))
                    yield Held(key, value, module)


def made_at(held: Held) -> list[Line]:
    """Return the user's lines that assign the generator to where it is held."""
    attribute = held.name.rpartition(".")[2]
    if isinstance(held.holder, ModuleType):
        return list(find_nodes(assigns_to(attribute), [str(held.holder.__file__)]))
    return assignments(held.holder, attribute)


def _state(generator: Any) -> bytes:
    if isinstance(generator, torch.Generator):
        return generator.get_state().numpy().tobytes()
    if isinstance(generator, np.random.Generator):
        return pickle.dumps(generator.bit_generator.state)
    if isinstance(generator, np.random.RandomState):
        return pickle.dumps(generator.get_state(legacy=False))
    return pickle.dumps(generator.getstate())
