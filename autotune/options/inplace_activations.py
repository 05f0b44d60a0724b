"""inplace_activations: activations and dropout that overwrite their input instead of keeping both."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from autotune.options.base import Context, Effect, Inapplicable, Option, Value
from autotune.options.snippet import Snippet
from autotune.plan import Plan

if TYPE_CHECKING:
    from torch import nn


class InplaceActivations(Option):
    name = "inplace_activations"
    help = "activations and dropout overwrite their input: off, all, or all but the named modules"
    default = "off"
    affects = frozenset({"compute", "memory"})
    meets = ("checkpoint_segments",)
    order = 34  # before the blocks are wrapped for recomputation

    def choices(self, context: Context) -> Sequence[Value] | Inapplicable:
        facts = context.facts
        if not facts.inplace:
            return Inapplicable(facts.inplace_refused or "it is checked on a workload's own step, and there is none")
        return (self.default, facts.inplace)

    def expert(self, context: Context) -> Value:
        return context.facts.inplace or self.default

    def prior(self, value: Value, context: Context) -> Effect:
        return Effect(sd=0.0) if value == self.default else Effect(compute=-0.02, memory=-0.1, sd=0.1)

    def conflict(self, values: Mapping[str, Value], context: Context) -> str | None:
        if values[self.name] == self.default or values["checkpoint_segments"] == 0:
            return None
        if context.facts.inplace_recomputed:
            return None
        return "in-place activations overwrite what recomputation starts from: the gradients would be wrong"

    def check(self, value: Value) -> str | None:
        words = value.split() if isinstance(value, str) else []
        known = value in ("off", "all") or (words[:2] == ["all", "but"] and len(words) > 2)
        return None if known else "takes off, all, or all but MODULE ..."

    def apply(self, value: Value, plan: Plan) -> None:
        if value == self.default:
            return

        def overwrite(model: nn.Module) -> nn.Module:
            from autotune.inplace import switch_on

            return switch_on(model, str(value))

        plan.model_transforms.append(overwrite)

    def snippet(self, value: Value) -> Snippet:
        if value == self.default:
            return Snippet()
        if value == "all":
            return Snippet(
                model="for module in model.modules():\n"
                '    if getattr(module, "inplace", None) is False:\n'
                "        module.inplace = True"
            )
        return Snippet(
            definitions=f"NOT_IN_PLACE = {json.dumps(str(value).split()[2:])}  # the gradients would change",
            model="missing = set(NOT_IN_PLACE)\n"
            "for path, module in model.named_modules():\n"
            '    path = ".".join("*" if part.isdigit() else part for part in path.split(".")) or "model"\n'
            '    name = f"{path}:{type(module).__name__}"\n'
            '    if getattr(module, "inplace", None) is False:\n'
            "        module.inplace = name not in NOT_IN_PLACE\n"
            "        missing.discard(name)\n"
            "if missing:\n"
            '    raise ValueError(f"not the model that was measured: it has no {sorted(missing)}")',
        )
