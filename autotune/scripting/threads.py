"""Updates in a thread that is not the main one: nothing can be held there, so that the script is left at once.

A greenlet cannot be left from another thread, and the main thread may wait for that thread for hours: a signal takes it
out of there.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType

from greenlet import getcurrent, greenlet

from autotune.errors import ScriptError
from autotune.scripting.changes import Changes
from autotune.workload.find import EXAMPLE

CALL = signal.SIGURG
"""ignored where nobody handles it, and no script has a use for it"""


class OtherThreads:
    """Refuses the training of other threads: the protocol gets the error where the script's main thread is."""

    def __init__(self, protocol: greenlet) -> None:
        self.refused: ScriptError | None = None
        """why the script cannot go on"""
        self._protocol = protocol

    def install(self, changes: Changes) -> None:
        """Wait for the call; to be called in the main thread."""
        before = signal.signal(CALL, self._called)

        def restore() -> None:
            signal.signal(CALL, signal.SIG_DFL if before is None else before)

        changes.add(restore)

    def look(self) -> None:
        """Raise where this is not the main thread, and have the main one raise, too.

        Raises:
            ScriptError: the script trains in this thread.
        """
        main = threading.main_thread()
        if threading.current_thread() is main:
            return
        self.refused = ScriptError(
            f"the script trains in a thread other than the main one ({threading.current_thread().name}): autotune "
            "cannot hold its steps there",
            hint=f"Let it train in the main thread. Or:\n{EXAMPLE}",
        )
        if signal.getsignal(CALL) == self._called and main.ident is not None:
            signal.pthread_kill(main.ident, CALL)
        raise self.refused  # ends the thread, and the script with it where it has taken the signal for itself

    def _called(self, number: int, frame: FrameType | None) -> None:
        if self.refused is None:
            return
        if getcurrent() is self._protocol:
            raise self.refused
        self._protocol.throw(self.refused)
