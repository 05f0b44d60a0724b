"""worker_affinity: loader workers and the training process on cores of their own."""

from __future__ import annotations

from collections.abc import Sequence

from autotune.machine import FEWEST_TO_SHARE
from autotune.options.base import Context, Effect, Inapplicable, Option, Value
from autotune.options.snippet import Snippet, source_of
from autotune.plan import Plan

KEEP_APART = """
@cache
def keep_apart(workers: int) -> KeepTo | None:
    \"""Keep this process, with all of its threads, to some cores; return what keeps a loader worker to the others.\"""
    shared = share_cores(workers, accelerator=torch.accelerator.is_available())
    if shared is None:
        return None
    ours, theirs = shared
    _set_all(ours)
    torch.set_num_threads(min(torch.get_num_threads(), len(ours)))
    # PyTorch compares the workers with the cores of this process alone
    warnings.filterwarnings("ignore", "This DataLoader will create")
    return KeepTo(frozenset(theirs))
"""


class WorkerAffinity(Option):
    name = "worker_affinity"
    help = "keep the loader workers off the training process's cores"
    default = False
    needs = "num_workers"
    affects = frozenset({"loader", "compute"})
    order = 26

    def choices(self, context: Context) -> Sequence[Value] | Inapplicable:
        facts = context.facts
        if facts.workers_refused:
            return Inapplicable(f"needs loader workers: {facts.workers_refused}")
        if facts.custom_loader:
            return Inapplicable("the loader is your own, and so are its workers")
        cores = context.machine.usable_cores
        if cores < FEWEST_TO_SHARE:
            return Inapplicable(f"{cores:g} usable cores are too few to share out; it takes {FEWEST_TO_SHARE}")
        return (False, True)

    def prior(self, value: Value, context: Context) -> Effect:
        # a launching thread that is never moved off its core, or cores that do not wait at OpenMP's barriers
        return Effect(compute=-0.01 if value else 0.0, sd=0.05)

    def apply(self, value: Value, plan: Plan) -> None:
        if value:
            plan.worker_affinity = True

    def snippet(self, value: Value) -> Snippet:
        if not value:
            return Snippet()
        return Snippet(
            imports=(
                "import os",
                "import warnings",
                "from collections.abc import Callable, Iterator, Set",
                "from contextlib import suppress",
                "from dataclasses import dataclass",
                "from functools import cache",
                "from pathlib import Path",
            ),
            definitions=_definitions(),
            loader={"worker_init_fn": "keep_apart(NUM_WORKERS)"},
            advice="A worker_init_fn of your own must set the affinity, too.",
        )


def _definitions() -> str:
    names = ("CORES", "FEWEST_TO_SHARE", "share_cores", "core_groups", "_numbers", "_read")
    sharing = source_of("autotune.machine", *names, rename={"own_cores()": "os.sched_getaffinity(0)"})
    keeping = source_of("autotune.affinity", "KeepTo", "_set_all")
    return f"{sharing}\n\n\n{keeping}\n\n{KEEP_APART.rstrip()}"
