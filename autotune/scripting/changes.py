"""What is changed in the running process while a script runs, and how it is set back."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import Any

_ABSENT = object()


class Changes:
    """Patches and hooks; `undo` sets all of them back, the last one first."""

    def __init__(self) -> None:
        self._stack = ExitStack()

    def patch(self, owner: Any, name: str, value: Any) -> None:
        """Set an attribute of a class or module until `undo`."""
        before = vars(owner).get(name, _ABSENT)
        setattr(owner, name, value)

        def restore() -> None:
            if before is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, before)

        self._stack.callback(restore)

    def add(self, restore: Callable[[], None]) -> None:
        """Call `restore` in `undo`."""
        self._stack.callback(restore)

    def enter(self, context: AbstractContextManager[Any]) -> None:
        """Stay in `context` until `undo`."""
        self._stack.enter_context(context)

    def undo(self) -> None:
        self._stack.close()
