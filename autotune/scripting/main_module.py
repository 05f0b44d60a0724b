"""Running a script as `python script.py` does: as `__main__`, with its folder first on sys.path and its arguments.

A module of a package is run as `python -m package.script` does.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from autotune.errors import ScriptError
from autotune.workload.package import place_of
from autotune.workload.script import QUIET, is_library
from autotune.workload.start_up import torch_told_anew


def quiet_trackers() -> None:
    """Switch experiment trackers off, unless the user has set their variables."""
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)


def run_as_main(script: Path, arguments: tuple[str, ...], *, called: str = "") -> None:
    """Run the script to its end; whatever it raises, SystemExit included, comes through.

    Args:
        called: what sys.argv[0] says; empty: the script's whole path.
    """
    path = script.resolve()
    module = ModuleType("__main__")
    place = place_of(path)
    # loader workers that are spawned find the script by its spec, or by __file__ where it has none: as on the command
    # line, only a module of a package has one
    spec = spec_from_file_location(place.module, path) if place.module else None
    vars(module).update(__file__=str(path), __spec__=spec, __cached__=None, __builtins__=__builtins__)
    module.__package__ = spec.parent if spec else None
    code = compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
    restore = _enter(module, [called or str(path), *arguments], str(place.folder))
    try:
        with torch_told_anew(path.name):
            exec(code, vars(module))
    finally:
        restore()


def _enter(module: ModuleType, argv: list[str], folder: str) -> Callable[[], None]:
    """Set what a script finds when it begins; return what sets it back, so that it finds that again."""
    before = sys.modules["__main__"], sys.argv, list(sys.path)
    here, gradients = os.getcwd(), torch.is_grad_enabled()
    start_method = multiprocessing.get_start_method(allow_none=True)
    handlers = _signal_handlers()
    set_interop_threads = torch.set_num_interop_threads

    def set_once(nthreads: int) -> None:
        if nthreads != torch.get_num_interop_threads():  # torch lets nobody set it twice, not even to the same
            set_interop_threads(nthreads)

    torch.set_num_interop_threads = set_once
    sys.modules["__main__"], sys.argv = module, argv
    sys.path.insert(0, folder)

    def restore() -> None:
        sys.modules["__main__"], sys.argv, sys.path[:] = before
        with suppress(OSError):  # the folder may be gone
            os.chdir(here)
        torch.set_grad_enabled(gradients)
        torch.set_num_interop_threads = set_interop_threads
        multiprocessing.set_start_method(start_method, force=True)  # a script may set it once only
        for number, handler in handlers.items():  # processes begin with them: a Pool's would not end by SIGTERM
            if signal.getsignal(number) is not handler:
                signal.signal(number, handler)

    return restore


def _signal_handlers() -> dict[int, Any]:
    """Return the handlers by signal, but for those that are set once a process: torch's for its workers, and C's."""
    found = {number: signal.getsignal(number) for number in signal.valid_signals() - {signal.SIGCHLD}}
    return {number: handler for number, handler in found.items() if handler is not None}


def end_of(error: SystemExit) -> tuple[int, str]:
    """Return the exit status that a SystemExit means, and the message that Python would print."""
    if error.code is None:
        return 0, ""
    if isinstance(error.code, int):
        return error.code, ""
    return 1, str(error.code)


def exit_error(script: Path, arguments: tuple[str, ...], error: SystemExit) -> ScriptError:
    """Return what a script's exit with an error status means to the user."""
    status, message = end_of(error)
    frames = traceback.extract_tb(error.__traceback__)
    if any(Path(frame.filename).name == "argparse.py" for frame in frames):
        given = f"It was given: {' '.join(arguments)}. " if arguments else "It was given none. "
        hint = (
            f"{script.name} did not accept its arguments; its own message is in the log. {given}"
            f"They go after --, as in: autotune search {script.name} -- --data folder"
        )
    else:
        place = place_of(script.resolve())
        command = place.command if place.module else script.name
        hint = f"Does it run by itself? python {command} {' '.join(arguments)}".rstrip()
    own = [frame for frame in frames if not is_library(frame.filename)]
    text = "".join(["Traceback (most recent call last):\n", *traceback.format_list(own), f"SystemExit: {error.code}\n"])
    said = f": {message}" if message else f" with status {status}"
    return ScriptError(f"{script.name} called sys.exit{said}", hint=hint, traceback=text)
