"""persistent_workers: keep the loader workers alive between epochs."""

from __future__ import annotations

from collections.abc import Sequence

from autotune.options.base import Context, Effect, Inapplicable, Option, Value
from autotune.plan import Plan


class PersistentWorkers(Option):
    name = "persistent_workers"
    help = "keep the loader workers alive between epochs"
    default = False
    needs = "num_workers"
    affects = frozenset({"loader"})
    order = 22

    def choices(self, context: Context) -> Sequence[Value] | Inapplicable:
        if context.facts.workers_refused:
            return Inapplicable(f"needs loader workers: {context.facts.workers_refused}")
        return (False, True)

    def expert(self, context: Context) -> Value:
        return not context.facts.workers_refused

    def prior(self, value: Value, context: Context) -> Effect:
        # the workers' start is paid once an epoch; how much that is depends on the epoch's length
        return Effect(loader=-0.03 if value else 0.0, sd=0.1)

    def apply(self, value: Value, plan: Plan) -> None:
        plan.loader["persistent_workers"] = value
