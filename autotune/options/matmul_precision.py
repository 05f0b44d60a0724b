"""matmul_precision: how far float32 matrix products may be rounded inside (TF32, bfloat16 products)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from autotune.options.base import Context, Effect, Inapplicable, Option, Value
from autotune.options.snippet import Snippet
from autotune.plan import Plan

VALUES = ("highest", "high", "medium")
FIRST_CAPABILITY = (8, 0)  # Ampere: the first cards with TF32


class MatmulPrecision(Option):
    name = "matmul_precision"
    help = "rounding inside float32 matrix products: highest, high (TF32) or medium"
    default = "highest"
    affects = frozenset({"compute"})
    changes_result = True
    order = 45

    def choices(self, context: Context) -> Sequence[Value] | Inapplicable:
        facts = context.facts
        if facts.capability is None:
            return Inapplicable("TF32 is of NVIDIA's cards alone")
        if facts.capability < FIRST_CAPABILITY:
            have = ".".join(map(str, facts.capability))
            return Inapplicable(f"{facts.device_name} has no TF32: its compute capability is {have}, below 8.0")
        if facts.matmul_precision != self.default:
            return Inapplicable(f"the script sets the float32 matmul precision to {facts.matmul_precision} itself")
        return VALUES

    def expert(self, context: Context) -> Value:
        return self.default if isinstance(self.choices(context), Inapplicable) else "high"

    def prior(self, value: Value, context: Context) -> Effect:
        # against fp32 products; under autocast most products are in 16 bits already, hence the spread
        return Effect(sd=0.0) if value == self.default else Effect(compute=-0.2, sd=0.25)

    def check(self, value: Value) -> str | None:
        return None if isinstance(value, str) and value in VALUES else "takes highest, high or medium"

    def apply(self, value: Value, plan: Plan) -> None:
        if value == self.default:
            return

        def switch_on() -> Callable[[], None]:
            import torch

            before = torch.get_float32_matmul_precision()
            torch.set_float32_matmul_precision(str(value))
            return lambda: torch.set_float32_matmul_precision(before)

        plan.switches.append(switch_on)

    def snippet(self, value: Value) -> Snippet:
        return Snippet() if value == self.default else Snippet(first=f'torch.set_float32_matmul_precision("{value}")')
