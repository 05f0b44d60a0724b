"""Whether a script's model can be recomputed in parts: its own step is run with and without, gradients compared."""

from __future__ import annotations

from functools import partial
from typing import Any

from torch import Tensor, nn

from autotune.batches import clone
from autotune.checkpointing import Chain, find_chain
from autotune.measure.numerics.vectors import dense
from autotune.measure.training import seed_all
from autotune.probing.kept import Kept
from autotune.probing.recomputing import find_recomputable
from autotune.scripting.training import ScriptTraining


def probe_chain(training: ScriptTraining, batch: Any) -> tuple[Chain | None, str | None]:
    """Return the chain that can be recomputed, or why none can."""
    models = training.driver.models.models
    model = max(models, key=_chain_length, default=nn.Identity())
    return find_recomputable(model, partial(_gradients, training, batch))


def _chain_length(model: nn.Module) -> int:
    chain = find_chain(model)
    return 0 if chain is None else len(chain)


def _gradients(training: ScriptTraining, batch: Any) -> dict[str, Tensor]:
    """Return the gradients of one update of the script, from the same state and random numbers each time.

    The update before it starts from these too: a script may draw its next batch ahead, or keep gradients.
    """
    kept = Kept(training.model)
    for _ in range(2):
        found = _of_one_update(training, batch)
        kept.restore()
    return found


def _of_one_update(training: ScriptTraining, batch: Any) -> dict[str, Tensor]:
    found: dict[str, Tensor] = {}

    def look(*_: Any) -> None:
        if not found:
            named = training.model.named_parameters()
            found.update({name: dense(item.grad) for name, item in named if item.grad is not None})

    handles = [optimizer.register_step_pre_hook(look) for optimizer in training.optimizers]
    seed_all(0)
    for _ in range(training.found.batches_per_update):
        if not found:
            training.step(clone(batch))
    for handle in handles:
        handle.remove()
    return found
