"""num_workers: processes that load samples beside the training process."""

from __future__ import annotations

import math
from collections.abc import Sequence

from autotune.options.base import Context, Effect, Inapplicable, Option, Value
from autotune.plan import Plan

MANY = (0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
IPC_COST = 0.1  # log ratio: pickling and moving a batch between processes
UNSHARED_BYTES = 80 * 2**20  # of a small training, which its process and forked workers do not share for long
WORKER_BYTES = 15 * 2**20  # what each worker needs besides


class NumWorkers(Option):
    name = "num_workers"
    help = "loader processes beside the training process; 0 loads in it"
    default = 0
    ordered = True
    affects = frozenset({"loader", "memory"})
    order = 20

    def choices(self, context: Context) -> Sequence[Value] | Inapplicable:
        if context.facts.workers_refused:
            return Inapplicable(context.facts.workers_refused)
        # not more than the cores: PyTorch warns of more, and they would compete with the step
        return [count for count in MANY if count <= most_workers(context)]

    def expert(self, context: Context) -> Value:
        facts = context.facts
        if facts.workers_refused or facts.sample_load_s < 0.1 * facts.sample_compute_s:
            return 0
        keep_up = math.ceil(facts.sample_load_s / max(facts.sample_compute_s, 1e-9))
        spare = most_workers(context) - (0 if facts.is_accelerator else 1)
        wanted = max(1, min(keep_up, spare))
        return max(count for count in MANY if count <= wanted)

    def prior(self, value: Value, context: Context) -> Effect:
        workers = int(value)
        if workers == 0:
            return Effect(sd=0.0)
        return Effect(
            loader=IPC_COST - math.log(min(workers, most_workers(context))),
            host_bytes=UNSHARED_BYTES + workers * WORKER_BYTES,
            sd=0.3,
        )

    def apply(self, value: Value, plan: Plan) -> None:
        plan.loader["num_workers"] = value


def most_workers(context: Context) -> int:
    return max(1, math.floor(context.machine.usable_cores))
