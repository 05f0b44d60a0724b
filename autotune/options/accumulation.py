"""accumulation: batches whose gradients make one optimizer step, so that a small batch trains like a large one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from autotune.errors import UsageError
from autotune.options.base import Context, Effect, Inapplicable, Option, Value
from autotune.options.batch_size import largest_batch
from autotune.plan import Plan

UPDATE_SHARE = 0.05  # of a step at batch size one below: what accumulation can save at most


class Accumulation(Option):
    name = "accumulation"
    help = "batches whose gradients make one optimizer step (--effective-batch N: batch size x this = N)"
    default = 1
    minimum = 1
    affects = frozenset({"compute"})
    order = 46

    def choices(self, context: Context) -> Sequence[Value] | Inapplicable:
        facts = context.facts
        today = int(context.baseline.get(self.name, self.default))
        if facts.script is not None:
            return Inapplicable("the script decides itself when it updates: give a Workload for that")
        if facts.own_step:
            return Inapplicable("the training step does its own backward passes and optimizer steps")
        if context.effective_batch is None:
            reason = "it is asked for by --effective-batch N: batch size x accumulation = N"
            return Inapplicable(reason, keep=today > 1)
        if facts.fixed_batch:
            return Inapplicable(facts.fixed_batch, keep=True)
        return [context.effective_batch // size for size in reversed(micro_batches(context))]

    def decided_by(self, context: Context) -> str | None:
        return None if context.effective_batch is None else "batch_size"

    def decide(self, value: Value, context: Context) -> Value:
        return max(1, (context.effective_batch or 1) // int(value))

    def prior(self, value: Value, context: Context) -> Effect:
        return Effect(compute=math.log(1 - UPDATE_SHARE * (1 - 1 / int(value))), sd=0.0 if value == 1 else 0.05)

    def apply(self, value: Value, plan: Plan) -> None:
        plan.accumulation = int(value)


def samples_per_update(config: Mapping[str, Value]) -> int:
    """Return the samples that one optimizer step trains on."""
    return int(config.get("batch_size", 1)) * int(config.get("accumulation", 1))


def keeps_samples(config: Mapping[str, Value], baseline: Mapping[str, Value]) -> bool:
    """Whether a config trains on as many samples in an optimizer step as the baseline."""
    return samples_per_update(config) == samples_per_update(baseline)


def micro_batches(context: Context) -> list[int]:
    """Return the batch sizes on the grid that divide the effective batch, smallest first."""
    whole, step = context.effective_batch or 0, context.batch_step
    top = min(whole, largest_batch(context))
    return [size for size in range(step, top + 1, step) if whole % size == 0]


def check_effective_batch(context: Context) -> None:
    """Raise UsageError where the samples per optimizer step that the user wants cannot be had."""
    whole = context.effective_batch
    if whole is None:
        return
    flag, length, step = f"--effective-batch {whole}", context.facts.dataset_length, context.batch_step
    found = Accumulation().choices(context)
    if isinstance(found, Inapplicable):
        raise UsageError(f"{flag}: accumulation does not apply here: {found.reason}")
    if length is not None and whole > length:
        raise UsageError(f"{flag}: the dataset has {length} samples", hint="An optimizer step takes no more than that.")
    if not found:
        below, above = whole // step * step, -(-whole // step) * step
        near = " or ".join(str(size) for size in dict.fromkeys((below, above)) if size)
        raise UsageError(
            f"{flag}: no batch size divides it: they are multiples of {step}, at most {largest_batch(context)}",
            hint=f"Take {near}, or allow other sizes: --batch-step {math.gcd(whole, step)}"
            if whole % step
            else "Allow larger ones: --max-batch",
        )
