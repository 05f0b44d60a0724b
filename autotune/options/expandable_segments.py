"""expandable_segments: let the allocator of a CUDA device grow its segments, which leaves fewer gaps."""

from __future__ import annotations

from collections.abc import Sequence

from autotune.options.base import Context, Effect, Inapplicable, Maths, Option, Value
from autotune.options.snippet import Snippet
from autotune.plan import Plan


class ExpandableSegments(Option):
    name = "expandable_segments"
    help = "let the CUDA allocator grow its segments: fewer gaps, above all where shapes vary"
    default = False
    affects = frozenset({"memory", "compute"})
    maths = Maths.UNTOUCHED
    order = 62

    def choices(self, context: Context) -> Sequence[Value] | Inapplicable:
        facts = context.facts
        if not facts.device.startswith("cuda"):
            return Inapplicable("it is a setting of the CUDA allocator")
        if facts.allocator_refused:
            return Inapplicable(facts.allocator_refused)
        return (False, True)

    def expert(self, context: Context) -> Value:
        return context.facts.variable_shapes and not isinstance(self.choices(context), Inapplicable)

    def prior(self, value: Value, context: Context) -> Effect:
        if not value:
            return Effect(sd=0.0)
        return Effect(memory=-0.1 if context.facts.variable_shapes else -0.02, sd=0.03)

    def apply(self, value: Value, plan: Plan) -> None:
        if value:
            plan.expandable_segments = True

    def snippet(self, value: Value) -> Snippet:
        if not value:
            return Snippet()
        return Snippet(
            imports=("import os",),
            # the older of its two names: under the newer one torch 2.9 takes no notice of this setting
            first='os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"  # read at first use of a device',
        )
