"""What of a script is training, by its requests, updates and forwards: for the rest of it, the clock stands still.

No training are evaluations, on whatever loader, and what comes between two epochs. A forward without gradients is
training, too, where it is a part of the step.
"""

from __future__ import annotations

import torch
from torch import nn

from autotune.scripting.clock import TrainingClock
from autotune.scripting.loaders import Batches, LoaderHooks, SeenLoader
from autotune.scripting.models import ModelHooks, is_evaluating
from autotune.scripting.optimizers import OptimizerHooks
from autotune.scripting.passes import Passes, State


class Activity:
    """Follows what the script does, and tells the clock where it trains and where it does not."""

    def __init__(
        self, clock: TrainingClock, loaders: LoaderHooks, models: ModelHooks, optimizers: OptimizerHooks
    ) -> None:
        self.ready = False
        """whether anything is timed: how the script trains is known, and it has made an update since"""
        self._clock, self._loaders, self._models, self._optimizers = clock, loaders, models, optimizers
        self._updates = 0
        self._fetched_from: set[SeenLoader] = set()
        """loaders that gave a batch since the last update"""
        self._asked_of: set[Passes] = set()
        """of the loaders that were asked for one since"""

    def asked(self, batches: Batches, batches_per_update: int) -> bool:
        """Note a request; return whether it belongs to a pass over its loader that trains."""
        passes = batches.seen.root.passes
        batches.seen.fetched -= passes.asked(batches.turn, self._state(), batches_per_update, self._updates)
        self._asked_of.add(passes)
        return passes.trains(batches.turn)

    def got(self, batches: Batches) -> None:
        """Note that the script got a batch without being held."""
        batches.seen.fetched += 1
        batches.turn.given += 1
        batches.turn.waiting += 1
        batches.given += 1
        self._fetched_from.add(batches.seen)

    def updated(self) -> None:
        """Note an update: of what it follows on."""
        self._updates += 1
        trained = {passes for passes in self._asked_of if passes.updated()}
        for seen in self._fetched_from:
            seen.updates += seen.root.passes in trained
        self._fetched_from.clear()
        self._asked_of.clear()

    def epoch_begins(self, seen: SeenLoader) -> None:
        """The training loader is iterated, in a run that has made an update."""
        if seen.root.passes.may_train(self._state()):
            self._clock.train()
        else:
            self._clock.leave()

    def forward_begins(self, model: nn.Module) -> None:
        """A model is called."""
        if not self.ready:
            return
        evaluating = is_evaluating(model)
        if evaluating and self._is_of_step(model):
            return
        if evaluating:
            self._clock.end_tail()
        if self._clock.between_epochs and self._loaders.training is not None:
            return
        if evaluating:
            self._clock.evaluate()
        else:
            self._clock.train()

    def _state(self) -> State:
        models = self._models.models
        return torch.is_grad_enabled(), not models or any(model.training for model in models)

    def _is_of_step(self, model: nn.Module) -> bool:
        """Whether a forward without gradients is a part of the step: of a teacher, a target or frozen layers.

        No optimizer trains these, and they are called on a batch that an update is still to follow.
        """
        on_batch = bool(self._asked_of) or self._loaders.training is None
        return on_batch and not self._clock.reads_other and not self._optimizers.train(model)
