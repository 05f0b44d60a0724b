"""batch_size: samples that one step trains on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log

from autotune.options.base import Context, Effect, Inapplicable, Option, Value
from autotune.options.drop_last import can_drop_last, leaves_one
from autotune.plan import Plan

LAST_OF_ONE = "leaves a last batch of one sample, which BatchNorm refuses"
BASELINE_MULTIPLE = 64  # how far above the baseline's batch the search looks unless told otherwise


class BatchSize(Option):
    name = "batch_size"
    help = "samples per step"
    default = 1
    ordered = True
    minimum = 1
    affects = frozenset({"compute", "loader", "memory"})
    changes_result = True
    meets = ("drop_last",)
    order = 10

    def choices(self, context: Context) -> Sequence[Value] | Inapplicable:
        if context.facts.fixed_batch:
            return Inapplicable(context.facts.fixed_batch, keep=True)
        top = largest_batch(context)
        step = context.batch_step
        if top < step:
            reason = f"{top} samples at most, and sizes are multiples of {step}; --batch-step 1 allows others"
            return Inapplicable(reason, keep=True)
        grid = range(step, top + 1, step) if context.effective_batch else ladder(step, top)
        sizes = [size for size in grid if self.refusal(size, context) is None]
        if not sizes:
            return Inapplicable("every size leaves a last batch of one sample, which BatchNorm refuses", keep=True)
        return sizes

    def refusal(self, value: Value, context: Context) -> str | None:
        facts, size = context.facts, int(value)
        if context.effective_batch and context.effective_batch % size:
            return f"does not divide the {context.effective_batch} samples of an optimizer step"
        if facts.dataset_length is None or facts.fixed_batch:
            return None
        if size > facts.dataset_length:
            return f"more than the {facts.dataset_length} samples of the dataset"
        return LAST_OF_ONE if leaves_one(size, context) and not can_drop_last(facts) else None

    def conflict(self, values: Mapping[str, Value], context: Context) -> str | None:
        return LAST_OF_ONE if leaves_one(int(values[self.name]), context) and not values["drop_last"] else None

    def expert(self, context: Context) -> Value:
        today = context.baseline.get(self.name, self.default)
        found = self.choices(context)
        if context.effective_batch is None or isinstance(found, Inapplicable):
            return today
        return max((size for size in found if int(size) <= int(today)), default=found[0])

    def prior(self, value: Value, context: Context) -> Effect:
        # Larger batches fill the machine better and spread the fixed cost of a step, with falling returns:
        # a third of a sample's time is assumed fixed at the baseline's batch on an accelerator, a tenth on a CPU.
        fixed = 0.3 if context.facts.is_accelerator else 0.1
        size, base = int(value), int(context.baseline.get(self.name, 32))
        return Effect(compute=log((1 - fixed) + fixed * base / size), sd=0.15)

    def apply(self, value: Value, plan: Plan) -> None:
        plan.loader["batch_size"] = value


def largest_batch(context: Context) -> int:
    """Return the largest batch size that the search may use: never beyond the dataset."""
    base = int(context.baseline.get("batch_size", 32))
    top = context.max_batch or BASELINE_MULTIPLE * base
    length = context.facts.dataset_length
    return top if length is None else min(top, length)


def ladder(step: int, top: int) -> list[int]:
    """Return multiples of `step` up to `top`, neighbours at most 1.5x apart from the second on.

    Alternates x4/3 and x3/2, so that every power of two times `step` is on it: 8 16 24 32 48 64 96 128 ...
    Empty where not even `step` is allowed.
    """
    sizes: list[int] = []
    power = step
    while power <= top:
        sizes += [power, power * 3 // 2] if power * 3 % (2 * step) == 0 else [power]
        power *= 2
    sizes = [size for size in sizes if size <= top]
    highest = top // step * step
    if sizes and highest > sizes[-1]:
        sizes.append(highest)
    return sizes
