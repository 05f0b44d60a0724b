"""worker_affinity: loader workers and the training process on cores of their own."""

from __future__ import annotations

from collections.abc import Sequence

from autotune.machine import FEWEST_TO_SHARE
from autotune.options.base import Context, Effect, Inapplicable, Option, Value
from autotune.plan import Plan


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

    def snippet(self, value: Value) -> str:
        if not value:
            return "# the scheduler places the loader workers"
        return (
            "os.sched_setaffinity(0, training_cores)  # and each of its threads\n"
            "DataLoader(..., worker_init_fn=lambda worker: os.sched_setaffinity(0, other_cores))"
        )
