"""The script's optimizers: their arguments as the plan adds them, and their updates, by torch's global hooks."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from autotune.implementations import built_with, skipped
from autotune.plan import Plan
from autotune.scripting.changes import Changes
from autotune.scripting.site import Site, site_of_caller

Hook = Callable[..., None]


def updated_by(optimizers: Iterable[Optimizer]) -> Iterator[Tensor]:
    """Yield what the optimizers update: parameters of models, and tensors that belong to none."""
    return (item for optimizer in optimizers for group in optimizer.param_groups for item in group["params"])


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
    """Sees each update of the script's optimizers, which are numbered by their first step.

    One that is made anew for each epoch keeps its number, and the old one may go, as it would without us.
    """

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
        self.before: list[Subscription] = []
        self.after: list[Subscription] = []
        self.idle: weakref.WeakSet[Optimizer] = weakref.WeakSet()
        """those that were made and have made no step yet"""
        self.given_closure = False
        """whether a step was given what computes the loss: it makes passes of its own"""
        self._numbers: weakref.WeakKeyDictionary[Optimizer, int] = weakref.WeakKeyDictionary()
        self._sites: weakref.WeakKeyDictionary[Optimizer, Site] = weakref.WeakKeyDictionary()
        self._made_at: list[Site | None] = []
        """by number"""
        self._stepped: list[bool] = []
        """by number: whether the last one made has made a step"""
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
                hooks._made(optimizer, site_of_caller())

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
        for known in (self._numbers, self._sites, self._made_at, self._stepped, self._trained):
            known.clear()

    @property
    def numbers(self) -> range:
        """The numbers of the optimizers so far; some may be gone, and be made anew."""
        return range(len(self._stepped))

    @property
    def optimizers(self) -> list[Optimizer]:
        """The optimizers that there are, in order; of those that are made anew, the last one."""
        last = {number: optimizer for optimizer, number in self._numbers.items()}
        return [last[number] for number in sorted(last)]

    def train(self, model: nn.Module) -> bool:
        """Return whether an optimizer that has made a step has parameters of the model."""
        if model not in self._trained:
            held = set(updated_by(self.optimizers))
            self._trained[model] = any(item in held for item in model.parameters())
        return self._trained[model]

    def _made(self, optimizer: Optimizer, site: Site) -> None:
        """Note a new optimizer: one that the script makes anew for another epoch, where that of its place has stepped.

        Of several made at one place, as in a list, each is followed by one of the next such list.
        """
        self.idle.add(optimizer)
        self._sites[optimizer] = site
        number = next((n for n in self.numbers if self._stepped[n] and self._made_at[n] == site), None)
        if number is not None:
            self._numbers[optimizer], self._stepped[number] = number, False
            self._trained.clear()
        self._on_new()

    def _number(self, optimizer: Optimizer) -> int:
        if optimizer not in self._numbers:
            self._numbers[optimizer] = len(self._stepped)
            self._made_at.append(self._sites.get(optimizer))
            self._stepped.append(False)
            self._trained.clear()
        return self._numbers[optimizer]

    def _before_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        if self._ours():
            return
        self.given_closure |= any(callable(item) for item in (*args[1:], *kwargs.values()))
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
        self._stepped[number] = True
        for item in list(self.after):
            if item.number == number:
                item.hook(optimizer, args, kwargs)
        if not skipped(optimizer):
            self._on_update(number)
