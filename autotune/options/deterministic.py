"""deterministic: have torch take algorithms alone that give the same bits in each run. Only where it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from autotune.options.base import Context, Effect, Inapplicable, Option, Value
from autotune.options.snippet import Snippet
from autotune.plan import Plan

WORKSPACE = ("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
"""environment variable, read when cuBLAS is first used, without which torch refuses its products on CUDA devices"""
MAY_DIFFER = "it times algorithms and takes the fastest, which may be another in the next run"
"""why options that do so cannot be had together with this one"""


class Deterministic(Option):
    name = "deterministic"
    help = "algorithms alone that give the same bits in each run; torch refuses the others"
    default = False
    affects = frozenset({"compute", "memory"})
    order = 42

    def choices(self, context: Context) -> Sequence[Value] | Inapplicable:
        if context.baseline.get(self.name):
            return (True,)  # a wish to keep, and nothing to gain by
        if context.facts.deterministic:
            return Inapplicable("the script asks for deterministic algorithms itself")
        return Inapplicable(
            "tried only where the baseline has it (search --deterministic), and then kept", unless_asked=True
        )

    def prior(self, value: Value, context: Context) -> Effect:
        return Effect(compute=0.1, sd=0.2) if value else Effect(sd=0.0)

    def apply(self, value: Value, plan: Plan) -> None:
        if value:
            plan.switches.append(_switch_on)

    def snippet(self, value: Value) -> Snippet:
        if not value:
            return Snippet()
        name, setting = WORKSPACE
        return Snippet(
            imports=("import os",),
            first=f'os.environ.setdefault("{name}", "{setting}")  # read when cuBLAS is first used\n'
            "torch.use_deterministic_algorithms(True)",
        )


def _switch_on() -> Callable[[], None]:
    import os

    import torch

    name, setting = WORKSPACE
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    workspace = os.environ.get(name)
    os.environ.setdefault(name, setting)
    torch.use_deterministic_algorithms(True)

    def restore() -> None:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])
        if workspace is None:
            os.environ.pop(name, None)

    return restore
