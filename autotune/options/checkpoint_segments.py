"""checkpoint_segments: drop activations and recompute them in the backward pass (Chen et al. 2016)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from autotune.options.base import Context, Effect, Inapplicable, Option, Value
from autotune.options.snippet import Snippet, source_of
from autotune.plan import Plan

if TYPE_CHECKING:
    import torch

SOURCE = (
    "MIN_BLOCKS",
    "MIN_LAYERS",
    "STATISTICS",
    "Chain",
    "checkpoint_chain",
    "find_chain",
    "_repeats",
    "_parameters",
    "_uninitialized",
    "_Recomputed",
    "_InSegments",
    "_run",
    "_checkpointed",
    "_StatisticsKept",
)


class CheckpointSegments(Option):
    name = "checkpoint_segments"
    help = "segments of the model whose activations are recomputed in the backward pass; 0 keeps them all"
    default = 0
    ordered = True
    affects = frozenset({"compute", "memory"})
    order = 35

    def choices(self, context: Context) -> Sequence[Value] | Inapplicable:
        facts = context.facts
        if facts.chain_refused:
            return Inapplicable(facts.chain_refused)
        length = facts.chain_length
        if facts.chain_kind == "sequential":
            counts = {0, 2, round(math.sqrt(length))}  # O(sqrt n) memory at about sqrt(n) segments
        else:
            counts = {0, math.ceil(length / 2), length}  # each segment is one block: half of them, or all
        return sorted(count for count in counts if count <= length)

    def prior(self, value: Value, context: Context) -> Effect:
        segments, length = int(value), max(context.facts.chain_length, 1)
        if segments == 0:
            return Effect(sd=0.0)
        # a second forward of the recomputed part; the forward is about a third of a step
        share = 1.0 if context.facts.chain_kind == "sequential" else segments / length
        return Effect(compute=math.log(1 + share / 3), memory=-0.8 * share, sd=0.15)

    def apply(self, value: Value, plan: Plan) -> None:
        segments = int(value)
        if segments == 0:
            return

        def recompute(model: torch.nn.Module) -> torch.nn.Module:
            from autotune.checkpointing import checkpoint_chain

            return checkpoint_chain(model, segments, plan.checkpoint_blocks)

        plan.model_transforms.append(recompute)

    def snippet(self, value: Value) -> Snippet:
        if value == 0:
            return Snippet()
        return Snippet(
            imports=(
                "from collections.abc import Iterator",
                "from contextlib import AbstractContextManager, contextmanager, nullcontext",
                "from dataclasses import dataclass",
                "from functools import partial",
                "from itertools import pairwise",
                "from typing import Any",
                "from torch import Tensor, nn",
                "from torch.nn.modules.batchnorm import _NormBase",
                "from torch.utils.checkpoint import checkpoint",
            ),
            definitions=source_of("autotune.checkpointing", *SOURCE, rename={"WorkloadError": "ValueError"}),
            model=f"model = checkpoint_chain(model, {value}, path=CHECKPOINT_BLOCKS)",
            advice="checkpoint_chain finds the repeated blocks by looking where path is None; give it the path of "
            "their container where it should take others.",
        )
