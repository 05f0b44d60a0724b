"""pin_memory: page-locked host batches, copied to the device without waiting."""

from __future__ import annotations

from collections.abc import Sequence

from autotune.options.base import Context, Effect, Inapplicable, Option, Value
from autotune.plan import Plan


class PinMemory(Option):
    name = "pin_memory"
    help = "page-locked host batches, copied to the device without waiting (non_blocking)"
    default = False
    affects = frozenset({"loader", "compute", "memory"})
    order = 23

    def choices(self, context: Context) -> Sequence[Value] | Inapplicable:
        if not context.facts.is_accelerator:
            return Inapplicable("there is no accelerator to copy to")
        if context.facts.on_accelerator:
            return Inapplicable("the loader's batches lie on the accelerator already, and only host memory is pinned")
        return (False, True)

    def expert(self, context: Context) -> Value:
        return not isinstance(self.choices(context), Inapplicable)

    def prior(self, value: Value, context: Context) -> Effect:
        return Effect(compute=-0.03 if value else 0.0, sd=0.08)

    def apply(self, value: Value, plan: Plan) -> None:
        plan.loader["pin_memory"] = value
        plan.non_blocking = bool(value)
