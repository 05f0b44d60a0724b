"""precision: the number format of matrix products and convolutions (automatic mixed precision)."""

from __future__ import annotations

from collections.abc import Sequence

from autotune.options.base import Context, Effect, Inapplicable, Option, Value
from autotune.plan import Plan

AUTOCAST_DTYPES = {"bf16": "bfloat16", "fp16": "float16"}


class Precision(Option):
    name = "precision"
    help = "number format of matrix products: fp32, bf16 or fp16 (with a gradient scaler)"
    default = "fp32"
    affects = frozenset({"compute", "memory"})
    changes_result = True
    order = 40

    def choices(self, context: Context) -> Sequence[Value] | Inapplicable:
        facts = context.facts
        if facts.own_autocast:
            return Inapplicable("the model or step already enters torch.autocast itself")
        if facts.own_step and not facts.uses_tuned_autocast:
            return Inapplicable("training_step never enters tuned.autocast()")
        # autocast leaves float64 alone, and a model in bf16 gets float32 back from it, which its own layers refuse
        if facts.trained_formats and "float32" not in facts.trained_formats:
            return Inapplicable(
                f"autocast is for float32; the trained parameters are {' and '.join(facts.trained_formats)}"
            )
        formats: list[Value] = ["fp32"]
        if facts.native_bf16:
            formats.append("bf16")
        # a script that runs as it is scales by itself; whether it does is looked at where the plan is carried out
        if facts.native_fp16 and (facts.script is not None or not (facts.own_step or facts.own_scaler)):
            formats.append("fp16")
        if len(formats) == 1:
            return Inapplicable(f"{facts.device_name} has no native bf16" + _fp16_reason(context))
        return formats

    def expert(self, context: Context) -> Value:
        return "bf16" if context.facts.native_bf16 else "fp16" if context.facts.native_fp16 else "fp32"

    def prior(self, value: Value, context: Context) -> Effect:
        if value == "fp32":
            return Effect(sd=0.0)
        # half the bytes for activations, weights stay in fp32; small models lose to the casts, hence the spread
        return Effect(compute=-0.35, memory=-0.45, sd=0.3)

    def roundoff(self, value: Value) -> float:
        return 2.0**-8 if value == "bf16" else 2.0**-11

    def check(self, value: Value) -> str | None:
        return (
            None
            if isinstance(value, str) and (value == "fp32" or value in AUTOCAST_DTYPES)
            else "takes fp32, bf16 or fp16"
        )

    def apply(self, value: Value, plan: Plan) -> None:
        if value == "fp32":
            return
        plan.autocast_dtype = AUTOCAST_DTYPES[str(value)]
        plan.scale_gradients = value == "fp16"


def _fp16_reason(context: Context) -> str:
    if not context.facts.is_accelerator:
        return ", and fp16 on a CPU is many times slower"
    if context.facts.own_step or context.facts.own_scaler:
        return ", and fp16 needs a scaler between backward and step, which the training step does itself"
    return ""
