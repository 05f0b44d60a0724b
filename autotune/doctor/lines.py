"""Whose line it was: from Python frames to the user's own file and line."""

from __future__ import annotations

import ast
import functools
import inspect
import os
import sys
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Set
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from torch import nn

from autotune.measure.training import Training
from autotune.workload.script import LIBRARIES, PACKAGE_FOLDER

SAMPLE_S = 0.001
SWITCH_S = 0.0002  # the interpreter's usual 5 ms between threads would put samples onto the wrong lines
BACKWARD = "_engine_run_backward"  # torch/autograd/graph.py: the call into the engine


class Line(NamedTuple):
    """A place in a file of the user's."""

    file: str
    number: int

    def __str__(self) -> str:
        path = Path(self.file)
        shown = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else Path(path.name)
        return f"{shown}:{self.number}"


@functools.lru_cache(maxsize=4096)
def users(filename: str) -> bool:
    """Whether a file is the user's: neither ours, nor Python's, nor an installed package's, nor made at run time."""
    if filename.startswith("<"):
        return False
    path = Path(filename)
    return not any(path.is_relative_to(folder) for folder in (PACKAGE_FOLDER, *LIBRARIES))


def line_of(frame: FrameType | None) -> Line | None:
    """Return the innermost line of the user's at or above `frame`, within the training step where one runs."""
    while frame is not None and frame.f_code is not Training.step.__code__:
        if users(frame.f_code.co_filename):
            return Line(frame.f_code.co_filename, frame.f_lineno)
        frame = frame.f_back
    return None


def in_backward(frame: FrameType | None) -> bool:
    """Whether `frame` was called by the backward pass."""
    while frame is not None:
        if frame.f_code.co_name == BACKWARD:
            return True
        frame = frame.f_back
    return False


class Birthplaces:
    """Where each module of the model was made."""

    def __init__(self) -> None:
        self._lines: weakref.WeakKeyDictionary[nn.Module, Line] = weakref.WeakKeyDictionary()

    def __getitem__(self, module: nn.Module) -> Line | None:
        return self._lines.get(module)

    def place(self, name: str, module: nn.Module) -> str:
        """Return a module as the user finds it: its path in the model, and the line that made it where known."""
        line = self[module]
        shown = name or type(module).__name__
        return shown if line is None else f"{shown} ({line})"

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Note the modules that are made meanwhile."""
        original = nn.Module.__init__

        def noting(module: nn.Module, *args: Any, **kwargs: Any) -> None:
            original(module, *args, **kwargs)
            line = line_of(sys._getframe(1))
            if line is not None:
                self._lines[module] = _past_constructors(sys._getframe(1), module, line)

        nn.Module.__init__ = noting  # type: ignore[method-assign, assignment]
        try:
            yield
        finally:
            nn.Module.__init__ = original  # type: ignore[method-assign]


def _past_constructors(frame: FrameType | None, module: nn.Module, line: Line) -> Line:
    """Return the line that made `module`: beyond its own class's __init__, which only calls its parent's."""
    while frame is not None:
        own = frame.f_code.co_name == "__init__" and frame.f_locals.get("self") is module
        if not own and users(frame.f_code.co_filename):
            return Line(frame.f_code.co_filename, frame.f_lineno)
        frame = frame.f_back
    return line


@dataclass
class LineShares:
    """Where the main thread was, sampled about a thousand times a second."""

    samples: int
    forward: Counter[Line]
    """samples outside the backward pass, by the user's innermost line"""
    backward: int

    def share(self, lines: Set[Line], backward: float = 0.0) -> float:
        """Return the share of the time that some lines take.

        Args:
            lines: the user's.
            backward: their share of the backward pass.
        """
        if not self.samples:
            return 0.0
        return (sum(self.forward[line] for line in lines) + self.backward * backward) / self.samples


def sample_lines(work: Callable[[], object]) -> LineShares:
    """Run `work` in this thread and sample where it is meanwhile."""
    found = LineShares(0, Counter(), 0)

    def look(frame: FrameType, since_s: float) -> None:
        found.samples += 1
        line = line_of(frame)
        if in_backward(frame):
            found.backward += 1
        elif line is not None:
            found.forward[line] += 1

    sample_frames(work, look)
    return found


def sample_frames(work: Callable[[], object], look: Callable[[FrameType, float], None]) -> None:
    """Run `work` in this thread; another one calls `look` with its innermost frame about every `SAMPLE_S`.

    The second argument is the time since the sample before, s: longer where a call kept the interpreter's lock.
    """
    target, stop = threading.get_ident(), threading.Event()

    def watch() -> None:
        last = time.perf_counter()
        while not stop.is_set():
            time.sleep(SAMPLE_S)
            frame = sys._current_frames().get(target)
            now = time.perf_counter()
            if frame is not None and not stop.is_set():
                look(frame, now - last)
            last = now
            del frame  # what a kept frame holds would outlive the work

    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_S)
    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        work()
    finally:
        stop.set()
        thread.join()
        sys.setswitchinterval(before)


def user_files() -> list[str]:
    """Return the source files of the user's modules that are loaded."""
    files = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
    return sorted({file for file in files if file and file.endswith(".py") and users(file) and os.path.isfile(file)})


def find_nodes(wanted: Callable[[ast.AST], bool], files: list[str] | None = None) -> Iterator[Line]:
    """Yield the lines of the user's sources whose syntax tree has what is wanted."""
    for file in user_files() if files is None else files:
        try:
            tree = ast.parse(Path(file).read_bytes())
        except (SyntaxError, ValueError, OSError):
            continue
        for node in ast.walk(tree):
            if wanted(node):
                yield Line(file, getattr(node, "lineno", 0))


def calls_to(*names: str) -> Callable[[ast.AST], bool]:
    """Return what is true of calls to functions or classes of these names, for `find_nodes`."""

    def wanted(node: ast.AST) -> bool:
        if not isinstance(node, ast.Call):
            return False
        function = node.func
        name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        return name in names

    return wanted


def assigns_to(name: str) -> Callable[[ast.AST], bool]:
    """Return what is true of assignments to a variable or an attribute of that name, for `find_nodes`."""

    def wanted(node: ast.AST) -> bool:
        if not isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
            return False
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return any(getattr(target, "attr", getattr(target, "id", None)) == name for target in targets)

    return wanted


def assignments(owner: type, attribute: str) -> list[Line]:
    """Return the lines of a class of the user's, and of its parents, that assign to an attribute."""
    found: list[Line] = []
    for part in owner.__mro__:
        try:
            file, (source, first) = inspect.getsourcefile(part), inspect.getsourcelines(part)
        except (OSError, TypeError):
            continue
        lines = find_nodes(assigns_to(attribute), [file] if file and users(file) else [])
        found += [line for line in lines if first <= line.number < first + len(source)]
    return found
