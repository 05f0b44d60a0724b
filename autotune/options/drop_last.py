"""drop_last: leave out the last batch of an epoch where it is not full."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from autotune.options.base import Context, Effect, Inapplicable, Maths, Option, Value
from autotune.plan import Plan

if TYPE_CHECKING:
    from autotune.facts import Facts

SHAPES_COST = ("compile_mode", "cudnn_benchmark")
"""options under which a batch of another size costs extra: it is compiled or searched for again"""


class DropLast(Option):
    name = "drop_last"
    help = "leave out the last batch of an epoch where it is not full"
    default = False
    changes_result = True
    maths = Maths.UNTOUCHED  # of the steps that are made
    affects = frozenset({"compute"})
    meets = ("batch_size",)
    order = 24

    def choices(self, context: Context) -> Sequence[Value] | Inapplicable:
        facts = context.facts
        if facts.drop_last:
            return Inapplicable("your loader leaves it out already")
        if not can_drop_last(facts):
            return Inapplicable("the loader is not made here, or nobody knows how long an epoch is")
        sizes = _sizes(context)
        if all(facts.dataset_length is not None and facts.dataset_length % size == 0 for size in sizes):
            return Inapplicable("every batch size divides the dataset: no batch is left over", unless_asked=True)
        if any(leaves_one(size, context) for size in sizes) or _shapes_cost(context):
            return (False, True)
        return Inapplicable(
            "a smaller last batch costs nothing extra here: nothing is compiled or tuned for its shape",
            unless_asked=True,
        )

    def conflict(self, values: Mapping[str, Value], context: Context) -> str | None:
        length = context.facts.dataset_length
        if values[self.name] and length is not None and int(values["batch_size"]) > length:
            return f"drop_last would leave out all of the {length} samples"
        return None

    def prior(self, value: Value, context: Context) -> Effect:
        return Effect(sd=0.02 if value else 0.0)  # once an epoch

    def apply(self, value: Value, plan: Plan) -> None:
        if value:  # a loader of the user's own that drops it keeps doing so
            plan.loader["drop_last"] = True


def can_drop_last(facts: Facts) -> bool:
    """Whether the last batch is ours to leave out."""
    return not (facts.drop_last or facts.custom_loader or facts.fixed_batch or facts.dataset_length is None)


def leaves_one(size: int, context: Context) -> bool:
    """Whether a batch size leaves a last batch of one sample, which BatchNorm cannot train on."""
    facts = context.facts
    if facts.dataset_length is None or facts.drop_last or not facts.batchnorm or size == 1:
        return False
    return facts.dataset_length % size == 1


def _sizes(context: Context) -> list[int]:
    """Return the batch sizes that the search may come to."""
    from autotune.options.batch_size import ladder, largest_batch

    today = int(context.baseline.get("batch_size", 1))
    top = largest_batch(context)
    return [today, *(ladder(context.batch_step, top) if top >= context.batch_step else ())]


def _shapes_cost(context: Context) -> bool:
    from autotune.options import OPTIONS  # this module is a part of it

    found = [OPTIONS[name].choices(context) for name in SHAPES_COST if name in OPTIONS]
    return any(not isinstance(choices, Inapplicable) and len(choices) > 1 for choices in found)
