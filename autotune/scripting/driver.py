"""The script and the protocol of measurement in turn: the script is held where it asks for its next batch.

Both run in the main thread, the script in a greenlet: thread-local state of torch, threads of OpenMP and signals are
those of a plain run, and a hand-over costs some microseconds. A script that is not resumed just stays where it is: no
handler and no `finally` of it runs.
"""

from __future__ import annotations

import atexit
import gc
import math
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from greenlet import getcurrent, greenlet
from torch import nn

from autotune.batches import tensors
from autotune.compiling import so_far
from autotune.device import Device
from autotune.errors import Unsupported
from autotune.facts import ScriptFacts
from autotune.plan import Plan
from autotune.random_numbers import kept_random_numbers
from autotune.scripting import endings
from autotune.scripting.activity import Activity
from autotune.scripting.changes import Changes
from autotune.scripting.checkpoints import Checkpoints
from autotune.scripting.clock import TrainingClock
from autotune.scripting.loaders import Batches, LoaderHooks, SeenLoader
from autotune.scripting.losses import Losses
from autotune.scripting.lost import ComesBack
from autotune.scripting.models import ModelHooks
from autotune.scripting.optimizers import OptimizerHooks
from autotune.scripting.outside import Outside

MAX_RUNS_UNHELD = 3  # runs too short to be held in
END = object()
"""answers a request for a batch: the epoch is over"""


def _nothing() -> None:
    pass


class Driver:
    """Runs a script up to where it asks for a batch, or has made an update where it has no loader."""

    def __init__(
        self, execute: Callable[[], None], plan: Plan, device: Device, found: ScriptFacts | None = None
    ) -> None:
        """`execute` runs the script from begin to end; `found` is how it trains, None while nobody knows."""
        self.clock = TrainingClock(device.synchronize)
        self.plan, self.device, self.found = plan, device, found
        self.runs = 0
        """how often the script was begun"""
        self.losses = Losses(self._backward_begins)
        self.checkpoints = Checkpoints()
        self.request: Batches | None = None
        """of the script, which is held there"""
        self.first_batch_s = 0.0
        """seconds that the script waited for its first batch"""
        self.on_rerun: Callable[[], None] = _nothing
        self.forwards = 0
        """outermost forwards of models with gradients, while the script is watched"""
        self.input_sizes: set[int] = set()
        """first dimensions of the tensors that these were called with"""
        self.updates: Counter[int] = Counter()
        """updates by the number of the optimizer"""
        self.loaders = LoaderHooks(
            plan,
            training=None if found is None else found.loader,
            ours=self._is_protocol,
            ask=self._ask if found is None or found.loader is not None else None,
            began=self._iteration_begins,
        )
        self.models = ModelHooks(plan, self._forward_begins)
        self.optimizers = OptimizerHooks(plan, self._updated, self._is_protocol, self._new_optimizer)
        self.compiled_before = so_far()
        """what was compiled before the script began"""
        self._execute = execute
        self._protocol = getcurrent()
        self.outside = Outside(self._protocol, lambda: self._updates_of_run > 0)
        self._script: greenlet | None = None
        self._comes_back = ComesBack()
        self._changes = Changes()
        self._activity = Activity(self.clock, self.loaders, self.models, self.optimizers)
        self._held = False
        self._updates_of_run = 0
        self._enough: Callable[[], bool] | None = None
        self._unseen = False
        """an epoch ends that is no part of what is timed"""
        self._overfed = False
        """this run was fed batches a second time, and nobody knows how many are in an epoch"""

    # -- the protocol's side ----------------------------------------------------------------------------------------

    def install(self) -> None:
        """Set hooks, patches and the plan's switches; `close` undoes all of it."""
        if self.plan.expandable_segments:  # first of all, before anything is on the device
            self._changes.add(self.device.expand_segments())
        for switch in self.plan.switches:
            self._changes.add(switch())
        self._changes.patch(atexit, "register", lambda function, *_, **__: function)  # a trial runs none of them
        self.outside.install(self._changes)
        self.loaders.install(self._changes)
        self.optimizers.install(self._changes)
        self.losses.install(self._changes)
        self.checkpoints.install(self._changes)

    def start(self) -> None:
        """Run the script until it is held for the first time: at the first request after an update."""
        self._begin()
        self._switch(None)

    def watch(self, enough: Callable[[], bool]) -> bool:
        """Run the script without holding it until `enough` says so; return whether it came so far.

        It is asked after each update, and before each backward pass while there was none.
        """
        self._enough = enough
        script = self._begin()
        script.switch()
        self._enough = None
        self._raise_refusal()
        return not script.dead

    def hold(self, found: ScriptFacts) -> None:
        """Go on with a script that was watched: it is held as `found` says."""
        self.found = found
        self.loaders.training = found.loader
        self._activity.ready = True
        self._switch(None)

    def feed(self, batch: Any) -> None:
        """Answer the script's request and let it step on the batch; returns when it is held again."""
        self._end_full_epoch()
        if self.request is not None:
            self.request.fed += 1
            self._overfed |= self.request.length is None and self.request.fed > self.request.pulled
        try:
            self._switch(batch)
        except (IndexError, ValueError) as error:  # what lists and schedules raise that are at their end
            if not self._overfed:
                raise
            raise endings.trained_too_far(error) from error

    def feed_untimed(self, batch: Any) -> None:
        """Feed the script a batch that is no part of what is measured."""
        self.clock.leave()
        self.feed(batch)

    def pull(self) -> Any:
        """Return the next batch of the loader that the script is held at; `END` where it has no more."""
        assert self.request is not None
        batch = next(self.request.inner, END)  # an exception would keep hold of the loader
        self.request.pulled += batch is not END
        return batch

    def drain(self) -> None:
        """Pull what the loader has left, untimed: an epoch that is full ends as others do, with idle workers."""
        assert self.request is not None
        assert self.request.length is not None
        self.clock.leave()
        while self.request.given + self.request.pulled < self.request.length and self.pull() is not END:
            pass

    def end_epoch(self) -> None:
        """Tell the script that its loader has no more batches; returns when it is held again.

        What it does until it iterates the loader again is not training, but for steps on batches that it read ahead:
        the clock stands still.
        """
        assert self.request is not None
        self.clock.end_epoch(self._updates_to_come(self.request))
        self._switch(END)

    def _updates_to_come(self, ended: Batches) -> int:
        """Return how many updates the script may still make on what it got of an epoch."""
        if self.found is None:
            return 0
        per_update = self.found.batches_per_update
        ahead = ended.given + ended.fed - ended.turn.updates * per_update
        return max(0, math.ceil(ahead / per_update)) * self.found.updates_per_step

    def _end_full_epoch(self) -> None:
        """End the script's epoch where one batch more were one too many: its loader's are not the only ones fed.

        Nothing of that is training, and whoever feeds has perhaps seeded the step that is to come.
        """
        if not self._is_full():
            return
        self._unseen = True
        try:
            with kept_random_numbers(self.device):
                for _ in range(MAX_RUNS_UNHELD):
                    self.end_epoch()
                    if not self._is_full():
                        return
            raise endings.too_short(self._updates_of_run)
        finally:
            self._unseen = False

    def _is_full(self) -> bool:
        return self.request is not None and self.request.full

    def close(self) -> None:
        """Take hooks and patches away. The script is not resumed."""
        self.models.stop_finding()
        self._changes.undo()

    def _begin(self) -> greenlet:
        self.runs += 1
        self._updates_of_run, self._held, self._overfed = 0, False, False
        self.loaders.forget()
        self._comes_back.asked()
        self.optimizers.forget()
        self.models.stop_finding()
        self.models.find()
        self._script = greenlet(lambda *_: self._execute(), parent=self._protocol)
        return self._script

    def _switch(self, answer: Any) -> None:
        """Let the script go on until it is held again; begin it again where it ends before."""
        assert self._script is not None
        if not self._script.dead:
            self._script.switch(answer)
        while self._script.dead:
            self._run_again()

    def _run_again(self) -> None:
        """The script has ended before the measurement: begin it again; its end is not training."""
        self._raise_refusal()
        updates = self.updates.total()
        if not self._updates_of_run:
            raise endings.trains_once(updates, self.checkpoints) if self.runs > 1 else endings.never_asked()
        if so_far().graphs > self.compiled_before.graphs:
            raise endings.compiles_anew(updates)
        if not self._held and self.runs >= MAX_RUNS_UNHELD:
            raise endings.too_short(self._updates_of_run)
        self.clock.leave()
        self.request = None
        self.on_rerun()
        gc.collect()
        script = self._begin()
        try:
            script.switch()
        except Exception as error:
            raise endings.cannot_run_twice(updates, error) from error

    def _raise_refusal(self) -> None:
        """Raise what the script's threads or processes were refused, where it ended without being left."""
        if self.outside.refused is not None:
            raise self.outside.refused

    # -- the script's side ------------------------------------------------------------------------------------------

    def _is_protocol(self) -> bool:
        return getcurrent() is self._protocol

    def _ask(self, batches: Batches) -> Any:
        if not self.outside.here:
            batches.seen.read_in_thread = True
            return next(batches.inner)  # read ahead by the script itself: where its steps begin does not show
        if batches.aside:
            return self._next(batches)
        if batches.turn.over:  # as of every iterator: those who read ahead may ask at the end again
            raise StopIteration
        now = time.perf_counter()
        training = self._activity.ready and self.loaders.is_training(batches.seen)
        if training:
            self._comes_back.asked()
        per_update = 1 if self.found is None else self.found.batches_per_update
        trains = self._activity.asked(batches, per_update)
        if not (training and trains and self._updates_of_run):  # models and optimizers show in the first step
            if training:
                self.clock.leave()
            batch = self._next(batches)
            self._activity.got(batches)
            self.first_batch_s = self.first_batch_s or time.perf_counter() - now
            return batch
        self.clock.train()
        self.request = batches
        answer = self._protocol.switch()
        self._held = True  # only now it was
        if answer is END:
            batches.seen.root.passes.ended(batches.turn, aside=False)
            raise StopIteration
        batches.turn.waiting += 1
        return answer

    def _next(self, batches: Batches) -> Any:
        """Return the next batch of an iterator that is not held."""
        batch = next(batches.inner, END)
        if batch is END:
            batches.seen.root.passes.ended(batches.turn, aside=batches.aside)
            raise StopIteration
        return batch

    def _updated(self, number: int) -> None:
        self.outside.look()
        self.clock.updated()
        self.updates[number] += 1
        self._updates_of_run += 1
        self._activity.updated()
        if self.models.updated(self._changes):
            for error in self.models.misfits().values():
                raise error
        if self._enough is not None:
            if self._enough():
                self._protocol.switch()
        elif self.found is not None:
            self._activity.ready = True
            self._look_for_loader(self.found)
            if self.found.loader is None and number == self.found.optimizer:
                self.clock.train()
                self._protocol.switch()
                self._held = True

    def _backward_begins(self) -> None:
        if self._enough is not None and not self.updates and getcurrent() is self._script and self._enough():
            self._protocol.switch()

    def _new_optimizer(self) -> None:
        """Look again for models; nothing of the script's own could catch that there are too many of them."""
        if not self.models.look_again():
            self._protocol.throw(
                Unsupported("the script trains one new model after the other, too many to apply the config to each")
            )

    def _look_for_loader(self, found: ScriptFacts) -> None:
        """Leave a script that does not come back to its training loader; nothing of its own could catch that."""
        if found.loader is None:
            return
        known = self.loaders.seen[found.loader] if found.loader < len(self.loaders.seen) else None
        lost = self._comes_back.updated(known, found.updates_per_step)
        if lost is not None:
            self._protocol.throw(lost)

    def _iteration_begins(self, seen: SeenLoader) -> None:
        if not self._activity.ready:
            return
        if self.loaders.is_training(seen):
            # the first pass of another run starts workers that a longer run would keep
            if self._updates_of_run and not self._unseen:
                self._activity.epoch_begins(seen)
            return
        self._comes_back.iterated(seen)
        self.clock.read_other()

    def _forward_begins(self, model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if self._enough is not None and torch.is_grad_enabled():
            self.forwards += 1
            self.input_sizes.update(item.size(0) for item in tensors((args, kwargs)) if item.dim())
        self._activity.forward_begins(model)
