"""activation_memory_budget: torch.compile's own trade of activation memory for recomputation in the backward pass."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from autotune.options.base import Context, Effect, Inapplicable, Option, Value
from autotune.options.snippet import Snippet
from autotune.plan import Plan

ALL = 100
RANDOM = "the model draws random numbers (dropout), and torch recomputes it with others: its gradients would be wrong"


class ActivationMemoryBudget(Option):
    name = "activation_memory_budget"
    help = "percent of its activations that a compiled model keeps; the rest is computed again"
    default = ALL
    ordered = True
    affects = frozenset({"compute", "memory"})
    needs = "compile_mode"
    order = 75

    def choices(self, context: Context) -> Sequence[Value] | Inapplicable:
        from autotune.options.compile_mode import CompileMode

        compiling = CompileMode().choices(context)
        if isinstance(compiling, Inapplicable):
            reason = f"it is torch.compile's: {compiling.reason}"
            return Inapplicable(reason, unless_asked=compiling.unless_asked)
        if context.facts.draws_random:
            return Inapplicable(RANDOM)
        return (30, 60, ALL)

    def refusal(self, value: Value, context: Context) -> str | None:
        return RANDOM if value != self.default and context.facts.draws_random else None

    def prior(self, value: Value, context: Context) -> Effect:
        kept = max(int(value), 1) / ALL
        if kept >= 1:
            return Effect(sd=0.0)
        # the cheapest operations are recomputed first, so that the first halves cost little
        return Effect(compute=0.2 * (1 - kept) ** 2, memory=0.7 * math.log(kept), sd=0.15)

    def check(self, value: Value) -> str | None:
        if type(value) is int and value > ALL:
            return f"must be {ALL} or less"
        return super().check(value)

    def apply(self, value: Value, plan: Plan) -> None:
        if value == self.default:
            return

        def switch_on() -> Callable[[], None]:
            from torch._functorch import config

            before = config.activation_memory_budget
            config.activation_memory_budget = int(value) / ALL

            def restore() -> None:
                config.activation_memory_budget = before

            return restore

        plan.switches.append(switch_on)

    def snippet(self, value: Value) -> Snippet:
        if value == self.default:
            return Snippet()
        return Snippet(
            imports=("import torch._functorch.config",),
            first=f"torch._functorch.config.activation_memory_budget = {int(value) / ALL:g}",
        )
