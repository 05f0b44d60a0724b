"""device_prefetch: copy the next batch to the device while it computes on the current one."""

from __future__ import annotations

from collections.abc import Sequence

from autotune.options.base import Context, Effect, Inapplicable, Option, Value
from autotune.plan import Plan


class DevicePrefetch(Option):
    name = "device_prefetch"
    help = "copy the next batch on a stream of its own while the device computes on the current one"
    default = False
    needs = "pin_memory"  # a copy from other memory makes the host wait, and so hides nothing
    affects = frozenset({"compute", "memory"})
    order = 28

    def choices(self, context: Context) -> Sequence[Value] | Inapplicable:
        if not context.facts.is_accelerator:
            return Inapplicable("there is no accelerator to copy to")
        if context.facts.on_accelerator:
            return Inapplicable("the loader's batches lie on the accelerator already: there is nothing to copy")
        return (False, True)

    def prior(self, value: Value, context: Context) -> Effect:
        # hides the copy where the step makes the host wait; costs one more batch on the device
        return Effect(compute=-0.02, memory=0.01, sd=0.04) if value else Effect(sd=0.0)

    def apply(self, value: Value, plan: Plan) -> None:
        if value:
            plan.device_prefetch = True
