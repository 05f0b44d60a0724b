"""cache_dataset: keep samples in shared memory after they were first read. Only where the user asks for it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from autotune.options.base import Context, Effect, Inapplicable, Option, Value
from autotune.options.snippet import Snippet
from autotune.plan import Plan

GIB = 1 << 30
READ_S = 2e-5  # seconds that a kept sample takes to come back


class CacheDataset(Option):
    name = "cache_dataset"
    help = "keep samples in shared memory after they were first read, for all loader workers"
    default = False
    opt_in = True
    affects = frozenset({"loader"})
    order = 27

    def choices(self, context: Context) -> Sequence[Value] | Inapplicable:
        facts = context.facts
        if facts.cache_refused:
            return Inapplicable(facts.cache_refused)
        if self.name not in context.allowed and not context.baseline.get(self.name):
            return Inapplicable("asked for by --allow cache_dataset: samples must not change from epoch to epoch")
        needed, limit = needed_bytes(context), context.host_bytes
        if limit is not None and needed > limit:
            return Inapplicable(
                f"{facts.dataset_length:,} samples of {facts.cache_sample_bytes:,} bytes take {needed / GIB:.3g} GiB, "
                f"and {limit / GIB:.3g} GiB of host memory may be used"
            )
        return (False, True)

    def expert(self, context: Context) -> Value:
        return not isinstance(self.choices(context), Inapplicable) and context.facts.sample_load_s > 10 * READ_S

    def prior(self, value: Value, context: Context) -> Effect:
        if not value:
            return Effect(sd=0.0)
        load_s = max(context.facts.sample_load_s, READ_S)
        return Effect(loader=max(-4.0, math.log(2 * READ_S / (load_s + READ_S))), sd=0.5)

    def start_s(self, value: Value, context: Context) -> float:
        return (context.facts.dataset_length or 0) * context.facts.sample_load_s if value else 0.0

    def apply(self, value: Value, plan: Plan) -> None:
        if value:
            plan.cache_dataset = True

    def snippet(self, value: Value) -> Snippet:
        if not value:
            return Snippet()
        return Snippet(
            dataset="dataset = [dataset[index] for index in range(len(dataset))]  # read once",
            advice="The samples are read before training starts, and forked loader workers share them; workers that "
            "are started by spawn or forkserver would each get a copy.",
        )


def needed_bytes(context: Context) -> int:
    """Return the host memory that all samples take."""
    return context.facts.cache_sample_bytes * (context.facts.dataset_length or 0)
