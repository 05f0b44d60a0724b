"""The script's optimizers: their arguments as the plan adds them, and their updates, by torch's global hooks."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any

from torch import nn
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from autotune.implementations import built_with, skipped
from autotune.plan import Plan
from autotune.scripting.changes import Changes

Hook = Callable[..., None]


class ScriptOptimizer:
    """The n-th optimizer of the script, also when the script runs again and makes it anew."""

    def __init__(self, hooks: OptimizerHooks, number: int) -> None:
        self._hooks, self._number = hooks, number

    def register_step_pre_hook(self, hook: Hook) -> Subscription:
        return Subscription(self._hooks.before, self._number, hook)

    def register_step_post_hook(self, hook: Hook) -> Subscription:
        return Subscription(self._hooks.after, self._number, hook)


class Subscription:
    """A hook on the steps of one optimizer, until `remove`."""

    def __init__(self, hooks: list[Subscription], number: int, hook: Hook) -> None:
        self.number, self.hook, self._hooks = number, hook, hooks
        hooks.append(self)

    def remove(self) -> None:
        self._hooks.remove(self)


class OptimizerHooks:
    """Sees each update of the script's optimizers, which are numbered by their first step."""

    def __init__(
        self,
        plan: Plan,
        on_update: Callable[[int], None],
        ours: Callable[[], bool],
        on_new: Callable[[], object],
    ) -> None:
        """`on_update` is called after each step with the optimizer's number; `ours`: it is not the script that runs.

        `on_new` is called when an optimizer is made, and before its first step.
        """
        self.optimizers: list[Optimizer] = []
        self.before: list[Subscription] = []
        self.after: list[Subscription] = []
        self.idle: weakref.WeakSet[Optimizer] = weakref.WeakSet()
        """those that were made and have made no step yet"""
        self._plan, self._on_update, self._ours, self._on_new = plan, on_update, ours, on_new
        self._handles: list[Any] = []
        self._trained: weakref.WeakKeyDictionary[nn.Module, bool] = weakref.WeakKeyDictionary()
        """models that were asked about, and whether the optimizers so far train them"""

    def install(self, changes: Changes) -> None:
        make, hooks = Optimizer.__init__, self

        @functools.wraps(make)
        def __init__(optimizer: Any, *args: Any, **kwargs: Any) -> None:
            make(optimizer, *args, **kwargs)
            if not hooks._ours():
                hooks.idle.add(optimizer)
                hooks._on_new()

        self.watch()
        changes.add(self.stop_watching)
        changes.patch(Optimizer, "__init__", __init__)
        changes.enter(built_with(self._plan.optimizer))

    def watch(self) -> None:
        """See the steps of all optimizers."""
        if not self._handles:
            self._handles = [
                register_optimizer_step_pre_hook(self._before_step),
                register_optimizer_step_post_hook(self._after_step),
            ]

    def stop_watching(self) -> None:
        """Take the hooks on the steps away."""
        while self._handles:
            self._handles.pop().remove()

    def forget(self) -> None:
        """Begin anew: the script runs again."""
        self.optimizers.clear()
        self._trained.clear()

    def train(self, model: nn.Module) -> bool:
        """Return whether an optimizer that has made a step has parameters of the model."""
        if model not in self._trained:
            groups = (group for optimizer in self.optimizers for group in optimizer.param_groups)
            held = {item for group in groups for item in group["params"]}
            self._trained[model] = any(item in held for item in model.parameters())
        return self._trained[model]

    def _number(self, optimizer: Optimizer) -> int:
        for number, item in enumerate(self.optimizers):
            if item is optimizer:
                return number
        self.optimizers.append(optimizer)
        self._trained.clear()
        return len(self.optimizers) - 1

    def _before_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        if self._ours():
            return
        if optimizer in self.idle:
            self.idle.discard(optimizer)
            self._on_new()
        number = self._number(optimizer)
        for item in list(self.before):
            if item.number == number:
                item.hook(optimizer, args, kwargs)

    def _after_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        if self._ours():
            return
        number = self._number(optimizer)
        for item in list(self.after):
            if item.number == number:
                item.hook(optimizer, args, kwargs)
        if not skipped(optimizer):
            self._on_update(number)
