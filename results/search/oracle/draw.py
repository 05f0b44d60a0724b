"""Which configs of a workload the oracle holds: drawn once, written to a file, and fixed from then on."""

from __future__ import annotations

import itertools
import json
import os
import random
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from autotune.config import Config
from autotune.documents import from_plain
from autotune.facts import Facts
from autotune.machine import Machine
from autotune.options.base import Context, Value
from autotune.options.space import Space, make_space
from autotune.records import Limits
from autotune.search.model.candidates import drawn
from autotune.search.model.encoding import Encoding
from autotune.search.setup import Prepared

FACTORS: dict[str, tuple[Value, ...] | None] = {
    "precision": None,  # None: every choice
    "num_workers": (0, 1, 2),  # more than two cores can feed gain nothing there; the random part has them
    "num_threads": None,
    "channels_last": None,
}
"""what moves the time of a step most on a CPU, beside the batch size: these are crossed in full"""
FACTORIAL_BATCHES = 4  # sizes in that factorial, spread evenly over the ladder
STEPS_A_TRIAL = 40  # warm-up, settling, twelve or more blocks, the same step on cached batches: about so many
AFFORDABLE_S = 12.0  # for those steps; a larger batch size than this allows is not in the table


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """The fixed set of one example, as it stands in its file."""

    example: str
    scale: str
    """EXAMPLE_SCALE, which changes the workload"""
    seed: int
    machine: dict[str, Any]
    facts: dict[str, Any]
    limits: Limits
    max_batch: int
    choices: dict[str, tuple[Any, ...]]
    reasons: dict[str, str]
    baseline: dict[str, Any]
    configs: tuple[dict[str, Any], ...]

    @classmethod
    def make(cls, example: str, prepared: Prepared, sample_s: float, number: int, seed: int) -> Chosen:
        """Draw `number` configs of a workload whose baseline takes `sample_s` seconds a sample."""
        space = affordable(prepared.space, sample_s)
        return cls(
            example=example,
            scale=os.environ.get("EXAMPLE_SCALE", "1"),
            seed=seed,
            machine=prepared.machine.to_dict(),
            facts=asdict(prepared.facts),
            limits=prepared.limits,
            max_batch=int(space.context.max_batch or 0),
            choices={name: tuple(values) for name, values in space.choices.items()},
            reasons=dict(space.reasons),
            baseline=dict(space.baseline),
            configs=tuple(dict(config) for config in draw(space, number, seed)),
        )

    @classmethod
    def load(cls, path: Path) -> Chosen:
        data = json.loads(path.read_text())
        return cls(
            **{
                **data,
                "limits": from_plain(Limits, data["limits"]),
                "choices": {name: tuple(values) for name, values in data["choices"].items()},
                "configs": tuple(data["configs"]),
            }
        )

    def save(self, path: Path) -> None:
        data = asdict(self)
        configs = data.pop("configs")
        head = json.dumps(data, indent=1)[:-2]
        lines = ",\n".join(f"  {json.dumps(config)}" for config in configs)  # one a line, to be read
        path.write_text(f'{head},\n "configs": [\n{lines}\n ]\n}}\n')

    @property
    def space(self) -> Space:
        """The space that they were drawn from."""
        context = Context(
            facts=from_plain(Facts, self.facts),
            machine=from_plain(Machine, self.machine),
            baseline=self.baseline,
            max_batch=self.max_batch,
        )
        return Space(context, self.choices, self.reasons, Config(**self.baseline))


def affordable(space: Space, sample_s: float) -> Space:
    """Return the space with no batch size whose trial would take too long, yet always a doubled baseline's."""
    today = int(space.baseline.value("batch_size"))
    sizes = [int(size) for size in space.choices["batch_size"]]
    short = [size for size in sizes if size <= 2 * today or STEPS_A_TRIAL * size * sample_s <= AFFORDABLE_S]
    return make_space(replace(space.context, max_batch=max(short)))


def draw(space: Space, number: int, seed: int) -> list[Config]:
    """Return distinct legal canonical configs: baseline, the expert's at every batch size, a factorial, random ones."""
    expert = space.expert()
    sizes = space.choices["batch_size"]
    found = [space.baseline, *(space.canonical(expert.replace(batch_size=size)) for size in sizes), *factorial(space)]
    encoding = Encoding(space)
    # five times as many as can be wanted: what the factorial holds already and what cannot run is left out
    rows = drawn(encoding, 5 * number, np.random.default_rng(seed))
    found += [encoding.config(row) for row in rows]
    legal = [config for config in dict.fromkeys(found) if space.legal(config) is None]
    return legal[:number]


def factorial(space: Space) -> list[Config]:
    """Return every combination of the few options that matter most, the others as the baseline has them."""
    sizes = space.choices["batch_size"]
    places = np.linspace(0, len(sizes) - 1, min(FACTORIAL_BATCHES, len(sizes))).round().astype(int)
    values: dict[str, list[Value]] = {"batch_size": [sizes[place] for place in places]}
    for name, wanted in FACTORS.items():
        if name in space.choices:
            values[name] = [value for value in space.choices[name] if wanted is None or value in wanted]
    combinations = itertools.product(*values.values())
    configs = [space.baseline.replace(**dict(zip(values, item, strict=True))) for item in combinations]
    return [space.canonical(config) for config in configs]


@dataclass(frozen=True)
class Turn:
    """One trial of the plan."""

    number: int
    config: Config
    replicate: int
    baseline: bool = False
    """interleaved, so that drift shows"""


def plan(chosen: Chosen, replicates: int, baseline_every: int) -> list[Turn]:
    """Return all trials in their order: each round of replicates in a random order of its own."""
    space = chosen.space
    turns: list[Turn] = []
    baselines = 0
    for replicate in range(replicates):
        order = [Config(**config) for config in chosen.configs]
        random.Random(chosen.seed + replicate).shuffle(order)
        for place, config in enumerate(order):
            if place % baseline_every == 0:
                turns.append(Turn(len(turns), space.baseline, baselines, baseline=True))
                baselines += 1
            turns.append(Turn(len(turns), config, replicate))
    return turns
