"""Training outside the main thread of the script's own process: nothing can be held there, so the script is left.

A greenlet cannot be left from another thread or process, and the script may wait for that one for hours: a signal takes
it out of there.
"""

from __future__ import annotations

import functools
import importlib
import mmap
import os
import signal
import threading
import traceback
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import FrameType
from typing import Any

import torch.multiprocessing
from greenlet import getcurrent, greenlet

from autotune.errors import ScriptError
from autotune.scripting.changes import Changes
from autotune.workload.find import EXAMPLE
from autotune.workload.script import is_library

CALL = signal.SIGURG
"""ignored where nobody handles it, and no script has a use for it"""


class Outside:
    """Refuses what is trained elsewhere: the protocol gets the error where the script's main thread is."""

    def __init__(self, protocol: greenlet, trains: Callable[[], bool]) -> None:
        """`trains`: the script has made an update where it can be held."""
        self.processes = 0
        """that the script started and is going to wait for"""
        self._protocol, self._trains = protocol, trains
        self._process = os.getpid()
        self._refused: ScriptError | None = None
        self._child_trains = mmap.mmap(-1, 1)  # shared with processes that are forked

    def install(self, changes: Changes) -> None:
        """Wait for the call, and see processes begin; to be called in the main thread."""
        before = signal.signal(CALL, self._called)

        def restore() -> None:
            signal.signal(CALL, signal.SIG_DFL if before is None else before)

        changes.add(restore)
        spawning: Any = importlib.import_module("torch.multiprocessing.spawn")  # its name there is a function's
        start, start_all = BaseProcess.start, spawning.start_processes

        @functools.wraps(start)
        def note_start(process: BaseProcess) -> None:
            self.processes += not process.daemon  # workers of loaders and pools are daemons
            start(process)

        @functools.wraps(start_all)
        def refuse_start(*args: Any, **kwargs: Any) -> Any:
            if not self._trains() and self.here:
                self._protocol.throw(_in_processes(f"{_place()} trains in processes of torch.multiprocessing.spawn"))
            return start_all(*args, **kwargs)

        changes.patch(BaseProcess, "start", note_start)
        for module in (torch.multiprocessing, spawning):
            changes.patch(module, "start_processes", refuse_start)

    @property
    def here(self) -> bool:
        """Whether this is where the script can be held."""
        return self._is_own_process() and threading.current_thread() is threading.main_thread()

    @property
    def refused(self) -> ScriptError | None:
        """Why the script cannot go on; None: it can."""
        if self._child_trains[0]:
            return _in_processes("the script trains in a process that it forks")
        return self._refused

    def look(self) -> None:
        """Raise where this is not the main thread of the script's process, and have that one raise, too.

        Raises:
            ScriptError: the script trains in this thread.
        """
        if self.here:
            return
        if not self._is_own_process():
            self._child_trains[0] = 1
            os.kill(self._process, CALL)
            os._exit(1)  # else what was forked with it, the protocol, would take the error for its own
        self._refused = ScriptError(
            f"the script trains in a thread other than the main one ({threading.current_thread().name}): autotune "
            "cannot hold its steps there",
            hint=f"Let it train in the main thread. Or:\n{EXAMPLE}",
        )
        main = threading.main_thread()
        if signal.getsignal(CALL) == self._called and main.ident is not None:
            signal.pthread_kill(main.ident, CALL)
        raise self._refused  # ends the thread, and the script with it where it has taken the signal for itself

    def _is_own_process(self) -> bool:
        return os.getpid() == self._process

    def _called(self, number: int, frame: FrameType | None) -> None:
        if self.refused is None or not self._is_own_process():
            return
        if getcurrent() is self._protocol:
            raise self.refused
        self._protocol.throw(self.refused)


def _in_processes(what: str) -> ScriptError:
    return ScriptError(
        f"{what}: autotune measures the steps of the script's own process",
        hint=f"Where one process is enough, let the script call itself what trains, as in train(0, 1). Or:\n{EXAMPLE}",
    )


def _place() -> str:
    """Return the script's line that we are called from, as "train.py:12"."""
    own = [frame for frame in traceback.extract_stack() if not is_library(frame.filename)]
    return f"{Path(own[-1].filename).name}:{own[-1].lineno}" if own else "the script"
