"""The script's optimizers: their arguments as the plan adds them, and their updates, by torch's global hooks."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

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

    def __init__(self, plan: Plan, on_update: Callable[[int], None]) -> None:
        """`on_update` is called after each step of an optimizer, with its number."""
        self.optimizers: list[Optimizer] = []
        self.before: list[Subscription] = []
        self.after: list[Subscription] = []
        self.given: set[str] = set()
        """arguments that the script itself gives to an optimizer of torch's"""
        self.refused: list[str] = []
        """optimizers whose class does not take an argument of the plan"""
        self._plan, self._on_update = plan, on_update
        self._handles: list[Any] = []

    def install(self, changes: Changes) -> None:
        self._handles = [
            register_optimizer_step_pre_hook(self._before_step),  # type: ignore[arg-type]
            register_optimizer_step_post_hook(self._after_step),  # type: ignore[arg-type]
        ]
        changes.add(self.stop_watching)
        for kind in vars(torch.optim).values():
            if isinstance(kind, type) and issubclass(kind, Optimizer) and kind is not Optimizer:
                self._patch(kind, changes)

    def stop_watching(self) -> None:
        """Take the hooks on the steps away."""
        while self._handles:
            self._handles.pop().remove()

    def forget(self) -> None:
        """Begin anew: the script runs again."""
        self.optimizers.clear()

    def _number(self, optimizer: Optimizer) -> int:
        for number, item in enumerate(self.optimizers):
            if item is optimizer:
                return number
        self.optimizers.append(optimizer)
        return len(self.optimizers) - 1

    def _before_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        number = self._number(optimizer)
        for item in list(self.before):
            if item.number == number:
                item.hook(optimizer, args, kwargs)

    def _after_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        number = self._number(optimizer)
        for item in list(self.after):
            if item.number == number:
                item.hook(optimizer, args, kwargs)
        self._on_update(number)

    def _patch(self, kind: type[Optimizer], changes: Changes) -> None:
        make: Any = kind.__init__
        signature = inspect.signature(make)
        hooks = self

        @functools.wraps(make)
        def __init__(optimizer: Any, *args: Any, **kwargs: Any) -> None:
            if type(optimizer) is kind:  # a subclass passes on what it was given, by the script or by us
                try:
                    given = signature.bind(optimizer, *args, **kwargs).arguments
                except TypeError:
                    given = None  # the optimizer itself says what is wrong
                if given is not None:
                    hooks.given.update(given)
                    kwargs = {**hooks._added(signature, given, kind.__name__), **kwargs}
            make(optimizer, *args, **kwargs)

        changes.patch(kind, "__init__", __init__)

    def _added(self, signature: inspect.Signature, given: Any, name: str) -> dict[str, Any]:
        if any(item not in signature.parameters for item in self._plan.optimizer):
            self.refused.append(name)
            return {}
        return {item: value for item, value in self._plan.optimizer.items() if item not in given}
