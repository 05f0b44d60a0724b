"""optimizer_impl: how torch.optim runs an update: as it likes, over lists of tensors, or in one kernel."""

from __future__ import annotations

from collections.abc import Sequence

from autotune.options.base import Context, Effect, Inapplicable, Option, Value
from autotune.plan import Plan

FLAGS = {"foreach": {"foreach": True, "fused": False}, "fused": {"fused": True, "foreach": False}}


class OptimizerImpl(Option):
    name = "optimizer_impl"
    help = "how torch.optim updates: as it likes, over lists of tensors (foreach) or in one kernel (fused)"
    default = "default"
    affects = frozenset({"compute"})
    order = 45

    def choices(self, context: Context) -> Sequence[Value] | Inapplicable:
        facts = context.facts
        if not facts.optimizer_impls:
            return Inapplicable(facts.optimizer_impls_refused or "the optimizer takes neither foreach nor fused")
        return (self.default, *facts.optimizer_impls)

    def expert(self, context: Context) -> Value:
        return "fused" if "fused" in context.facts.optimizer_impls else self.default

    def prior(self, value: Value, context: Context) -> Effect:
        if value == self.default:
            return Effect(sd=0.0)
        # the update is a small part of a step, unless the model is large and the batch small
        return Effect(compute=-0.04 if value == "fused" else 0.0, sd=0.08)

    def check(self, value: Value) -> str | None:
        known = isinstance(value, str) and (value == self.default or value in FLAGS)
        return None if known else "takes default, foreach or fused"

    def apply(self, value: Value, plan: Plan) -> None:
        plan.optimizer.update(FLAGS.get(str(value), {}))
