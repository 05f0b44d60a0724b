"""Which passes over a loader train: a script may read its training data to evaluate too, or twice at the same time."""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field
from typing import Any

State = tuple[bool, bool]
"""whether gradients are on, and whether a model is in training mode, where a pass begins"""


@dataclass(eq=False)
class Pass:
    """A pass over a loader: all iterators that were begun before one of them was asked."""

    aside: bool = False
    """another pass is read in turn with it, and that one is held"""
    state: State | None = None
    """None: it was not asked for a batch yet"""
    given: int = 0
    """batches that the script got without being held"""
    waiting: int = 0
    """batches that the script got since the last update"""
    updates: int = 0
    """that followed one of its batches"""
    doubted: bool = False
    """it began as those that train, and no update came"""
    over: bool = False
    iterators: weakref.WeakSet[Any] = field(default_factory=weakref.WeakSet)
    """those of its iterators that the script still has"""

    @property
    def evaluates(self) -> bool:
        """Whether it evaluates, where an update comes now: it began without gradients or in evaluation mode, and the
        script has no use for its batches any more.
        """
        given_up = self.over or not self.iterators
        return self.state is not None and not all(self.state) and not self.updates and given_up


@dataclass(eq=False)
class Passes:
    """The passes over one loader, made anew or not.

    How a pass begins tells whether it trains: those did that began in the same state. Where none began so, or some did
    not train, its first update tells.
    """

    latest: Pass | None = None
    """the last that was asked and is none at the side"""
    comes_back: bool = False
    """a batch was asked for after one that an update followed: the script does more than read its data in"""
    turns: int = 0
    """requests that came after an update, since the first one"""
    updates_of_turns: int = 0
    """of all optimizers together, until the last of these"""
    _asked_at: int | None = None
    """how many updates there were at the last request"""
    _begun: Pass | None = None
    _trained: set[State] = field(default_factory=set)
    """states in which passes began that trained"""
    _idled: set[State] = field(default_factory=set)
    """states in which passes began that did not"""
    _again_aside: bool = False
    """an iterator at the side has ended, and is begun anew next"""

    def begin(self) -> Pass:
        """Return the pass of an iterator that is begun now."""
        if self._begun is None or self._begun.aside or self._begun.state is not None:
            self._begun = Pass(aside=self._again_aside)
            self._again_aside = False
        return self._begun

    def may_train(self, state: State) -> bool:
        """Whether a pass that begins now so trains, going by those before."""
        return state in self._trained and state not in self._idled

    def trains(self, one: Pass) -> bool:
        """Whether this pass trains, as far as it shows."""
        return one.updates > 0 or (one.state is not None and self.may_train(one.state))

    def trained_as(self, others: Passes) -> bool:
        """Whether passes over both loaders began in one state and trained: those of an evaluation begin in another."""
        return bool(self._trained & others._trained)

    def asked(self, one: Pass, state: State, batches_per_update: int, updates: int) -> int:
        """Note a request for a batch, after so many updates of the script.

        Returns:
            How many batches the script got unheld of a pass that was over without update.
        """
        if self._asked_at is not None and updates > self._asked_at:
            self.turns += 1
            self.updates_of_turns += updates - self._asked_at
        self._asked_at = updates
        self.comes_back = self.comes_back or bool(self._trained)
        first = one.state is None
        one.state = one.state or state
        unused = 0
        if one is not self.latest:
            if self.latest is not None and not self.latest.updates:
                unused = self.latest.given
                if self.latest.waiting >= batches_per_update:  # fewer may be what it was fed before its end
                    self._idled.add(self.latest.state or state)
            elif self.latest is not None and not first:
                self.latest.aside = True  # the one before it comes back: they are read in turn
            self.latest = one
        if not one.updates and one.waiting > batches_per_update:  # one batch may be read ahead
            one.doubted = True
            self._idled.add(one.state)
        return unused

    def updated(self) -> bool:
        """Note an update of an optimizer; return whether it followed on what a pass gave that trains."""
        one = self.latest
        if one is None or one.state is None or not one.waiting or one.evaluates:
            return False
        one.updates += 1
        one.waiting = 0
        self._trained.add(one.state)
        if one.doubted:
            one.doubted = False
            self._idled.discard(one.state)
        return True

    def ended(self, one: Pass, *, aside: bool) -> None:
        """Note that an iterator has no more batches."""
        if not aside:
            one.over = True
        elif self.latest is not None and not self.latest.over:
            self._again_aside = True
