"""prefetch_factor: batches that each loader worker keeps ready."""

from __future__ import annotations

from collections.abc import Sequence

from autotune.options.base import Context, Effect, Inapplicable, Option, Value
from autotune.plan import Plan


class PrefetchFactor(Option):
    name = "prefetch_factor"
    help = "batches that each loader worker keeps ready"
    default = 2
    ordered = True
    minimum = 1
    needs = "num_workers"
    affects = frozenset({"loader", "memory"})
    order = 21

    def choices(self, context: Context) -> Sequence[Value] | Inapplicable:
        if context.facts.workers_refused:
            return Inapplicable(f"needs loader workers: {context.facts.workers_refused}")
        return (2, 4, 8)

    def prior(self, value: Value, context: Context) -> Effect:
        # evens out samples of uneven cost; never raises the mean rate of the workers
        return Effect(loader=0.0 if value == 2 else -0.02, sd=0.05)

    def apply(self, value: Value, plan: Plan) -> None:
        plan.loader["prefetch_factor"] = value
