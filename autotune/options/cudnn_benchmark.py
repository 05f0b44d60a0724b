"""cudnn_benchmark: let cuDNN time its convolution algorithms and take the fastest."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from autotune.options.base import Context, Effect, Inapplicable, Maths, Option, Value
from autotune.options.deterministic import MAY_DIFFER
from autotune.options.snippet import Snippet
from autotune.plan import Plan


class CudnnBenchmark(Option):
    name = "cudnn_benchmark"
    help = "let cuDNN time its convolution algorithms and take the fastest"
    default = False
    affects = frozenset({"compute", "memory"})
    maths = Maths.ROUNDED  # the algorithm that it finds may be one of TF32
    order = 60
    meets = ("deterministic",)

    def choices(self, context: Context) -> Sequence[Value] | Inapplicable:
        facts = context.facts
        if not facts.device.startswith("cuda"):
            return Inapplicable("cuDNN works on CUDA devices only")
        if not facts.convolution_ranks:
            return Inapplicable("the model has no convolution")
        if facts.deterministic or context.baseline.get("deterministic"):
            return Inapplicable("deterministic algorithms are asked for")
        if facts.variable_shapes:
            return Inapplicable("shapes vary between batches, and each new shape would be searched again")
        return (False, True)

    def conflict(self, values: Mapping[str, Value], context: Context) -> str | None:
        return MAY_DIFFER if values[self.name] and values["deterministic"] else None

    def expert(self, context: Context) -> Value:
        return not isinstance(self.choices(context), Inapplicable)

    def prior(self, value: Value, context: Context) -> Effect:
        return Effect(compute=-0.06 if value else 0.0, sd=0.1)

    def apply(self, value: Value, plan: Plan) -> None:
        if value:
            plan.switches.append(_switch_on)

    def snippet(self, value: Value) -> Snippet:
        return Snippet(first="torch.backends.cudnn.benchmark = True") if value else Snippet()


def _switch_on() -> Callable[[], None]:
    import torch

    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = True

    def restore() -> None:
        torch.backends.cudnn.benchmark = before

    return restore
