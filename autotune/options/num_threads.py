"""num_threads: threads that one operation on the CPU may use."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from autotune.options.base import Context, Effect, Inapplicable, Maths, Option, Value
from autotune.options.snippet import Snippet
from autotune.plan import Plan


class NumThreads(Option):
    name = "num_threads"
    help = "threads that one CPU operation may use; 0 leaves it to PyTorch"
    default = 0
    ordered = True
    affects = frozenset({"compute"})
    maths = Maths.UNTOUCHED
    order = 61

    def choices(self, context: Context) -> Sequence[Value] | Inapplicable:
        if context.facts.is_accelerator:
            return Inapplicable("the step runs on the accelerator")
        cores = math.floor(context.machine.usable_cores)
        if cores < 2:
            return Inapplicable("there is one core to use")
        unasked = context.facts.default_threads
        counts = sorted({1, cores // 2, cores - 1, cores, unasked})
        # PyTorch's own number goes by its default, so that one setting has one name
        return [0 if count == unasked else count for count in counts]

    def prior(self, value: Value, context: Context) -> Effect:
        cores = max(1.0, context.machine.usable_cores)
        threads = min(int(value) or context.facts.default_threads, cores)
        # half of a step's work is assumed to scale with threads (Amdahl), and workers want cores too
        return Effect(compute=math.log(0.5 + 0.5 * cores / threads) / 2, sd=0.25)

    def apply(self, value: Value, plan: Plan) -> None:
        threads = int(value)
        if threads == 0:
            return

        def switch() -> Callable[[], None]:
            import torch

            before = torch.get_num_threads()
            torch.set_num_threads(threads)
            return lambda: torch.set_num_threads(before)

        plan.switches.append(switch)

    def snippet(self, value: Value) -> Snippet:
        return Snippet(first=f"torch.set_num_threads({value})") if value else Snippet()
