"""Objects as the code that makes them, as far as their construction was seen or shows."""

from __future__ import annotations

import argparse
import importlib
import inspect
import itertools
import math
import sys
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.data import Dataset

from autotune.scripting.changes import Changes

LONGEST = 40
"""items of a list, dict or range that are still written out"""

Given = tuple[tuple[Any, ...], dict[str, Any]]


class Unseen(Exception):
    """An object whose construction does not show."""


class Constructions:
    """Notes what models and datasets are constructed with."""

    def __init__(self) -> None:
        self._given: dict[int, tuple[Any, Given]] = {}

    def install(self, changes: Changes) -> None:
        make: Any = nn.Module.__init__
        given = self._given
        patched: list[Any] = []

        def __init__(module: nn.Module, *args: Any, **kwargs: Any) -> None:
            make(module, *args, **kwargs)
            seen = _outermost_call(module)
            if seen is None and type(module).__init__ in patched:  # a class without a constructor of its own
                seen = args, kwargs
            if seen is not None:
                given[id(module)] = (module, seen)

        def __new__(kind: type, *args: Any, **kwargs: Any) -> Any:
            made: Any = super(Dataset, kind).__new__(kind)  # type: ignore[misc]
            given[id(made)] = (made, (args, kwargs))
            return made

        patched.append(__init__)
        changes.patch(nn.Module, "__init__", __init__)
        changes.patch(Dataset, "__new__", staticmethod(__new__))

    def of(self, value: Any) -> Given | None:
        """Return what an object was constructed with; None where that was not seen."""
        known = self._given.get(id(value))
        return known[1] if known is not None and known[0] is value else None


def _outermost_call(module: nn.Module) -> Given | None:
    """Return the arguments of the constructor that runs: of the outermost one, of the module's own class."""
    frame = sys._getframe(2)
    found: Given | None = None
    while frame is not None and frame.f_code.co_name == "__init__":
        code = frame.f_code
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        if not names or frame.f_locals.get(names[0]) is not module:
            break
        values = frame.f_locals
        positional = [values[name] for name in names[1 : code.co_argcount] if name in values]
        by_name = {name: values[name] for name in names[code.co_argcount :] if name in values}
        rest = code.co_argcount + code.co_kwonlyargcount
        if code.co_flags & inspect.CO_VARARGS:
            positional += values.get(code.co_varnames[rest], ())
            rest += 1
        if code.co_flags & inspect.CO_VARKEYWORDS:
            by_name.update(values.get(code.co_varnames[rest], {}))
        found = tuple(positional), by_name
        if frame.f_back is None:
            break
        frame = frame.f_back
    return found


class Writer:
    """Turns objects into code, and notes what that code needs."""

    def __init__(self, constructions: Constructions, script: str) -> None:
        """`script` is the module that has the script's own functions and classes; empty: they are copied."""
        self._constructions, self.script = constructions, script
        self.imports: set[str] = set()
        self.names: set[str] = set()
        """functions and classes of the script itself"""

    def namespace(self) -> dict[str, Any]:
        """Return what the code so far means the same in as in a file, without another run of the script."""
        main = sys.modules["__main__"]
        imported = {name.partition(".")[0] for name in self.imports}
        modules = {name: importlib.import_module(name) for name in imported}
        return {**vars(main), **modules, **({self.script: main} if self.script else {})}

    def expression(self, value: Any, depth: int = 0) -> str:
        """Return code that makes the object again.

        Raises:
            Unseen: it does not show how.
        """
        if depth > 12:
            raise Unseen(type(value).__name__)
        simple = self._simple(value)
        if simple is not None:
            return simple
        if isinstance(value, list | tuple | dict | set | frozenset):
            return self._container(value, depth)
        if isinstance(value, type) or inspect.isroutine(value):
            return self.reference(value)
        if isinstance(value, argparse.Namespace):
            self.imports.add("argparse")
            return self._call("argparse.Namespace", type(value), ((), vars(value)), depth)
        return self._construction(value, depth)

    def reference(self, value: Any) -> str:
        """Return the name of a function or class, which is imported."""
        module, name = getattr(value, "__module__", ""), getattr(value, "__qualname__", "")
        if module in ("builtins", None):
            if name and "." not in name:
                return str(name)
            raise Unseen(repr(value))
        if not name or "<" in name:
            raise Unseen(name or repr(value))
        if module == "__main__":
            top = name.split(".")[0]
            self.names.add(top)
            return f"{self.script}.{name}" if self.script else name
        packages = itertools.accumulate(module.split("."), "{}.{}".format)  # people name it by the outermost with it
        module = next((item for item in packages if getattr(sys.modules.get(item), name, None) is value), module)
        if getattr(sys.modules.get(module), name.split(".")[0], None) is None:
            raise Unseen(name)
        self.imports.add(module)
        return f"{module}.{name}"

    def call(self, function: Any, given: Given) -> str:
        """Return the call of a function or class; arguments that are its defaults are left out."""
        return self._call(self.reference(function), function, given, 0)

    def _simple(self, value: Any) -> str | None:
        if value is None or value is Ellipsis or isinstance(value, bool | int | str | bytes | complex):
            return repr(value) if type(value).__module__ == "builtins" else None
        if isinstance(value, float):
            return repr(value) if math.isfinite(value) else f'float("{value}")'
        if isinstance(value, torch.dtype | torch.device):
            self.imports.add("torch")
            return str(value) if isinstance(value, torch.dtype) else f'torch.device("{value}")'
        if isinstance(value, Path):
            self.imports.add("pathlib")
            return f"pathlib.Path({str(value)!r})"
        return repr(value) if isinstance(value, range | slice) else None

    def _container(self, value: Any, depth: int) -> str:
        if len(value) > LONGEST:
            raise Unseen(f"{len(value)} items")
        if isinstance(value, dict):
            pairs = (f"{self.expression(key, depth + 1)}: {self.expression(item, depth + 1)}"
                     for key, item in value.items())  # fmt: skip
            text = f"{{{', '.join(pairs)}}}"
            if type(value) is OrderedDict:
                self.imports.add("collections")
                return f"collections.OrderedDict({text})"
        else:
            items = [self.expression(item, depth + 1) for item in value]
            if isinstance(value, list):
                text = f"[{', '.join(items)}]"
            elif isinstance(value, tuple):
                text = f"({', '.join(items)}{',' if len(items) == 1 else ''})"
            else:
                text = f"{type(value).__name__}(({''.join(f'{item}, ' for item in items)}))"
        if type(value) in (list, tuple, dict, set, frozenset):
            return text
        raise Unseen(type(value).__name__)

    def _construction(self, value: Any, depth: int) -> str:
        given = self._constructions.of(value)
        if given is None:
            given = _by_attributes(value)
        return self._call(self.reference(type(value)), type(value), given, depth + 1)

    def _call(self, name: str, function: Callable[..., Any], given: Given, depth: int) -> str:
        args, kwargs = given
        left = defaults_of(function)
        positional = [self.expression(item, depth + 1) for item in args]
        names = list(left)
        while 0 < len(positional) <= len(names) and not kwargs:
            if not _same(left[names[len(positional) - 1]], args[len(positional) - 1]):
                break
            positional.pop()
        by_name = [f"{key}={self.expression(item, depth + 1)}" for key, item in kwargs.items()
                   if not is_default(left, key, item)]  # fmt: skip
        return f"{name}({', '.join([*positional, *by_name])})"


def defaults_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the parameters of a call with their defaults, or `inspect.Parameter.empty`."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return {}
    if any(item.kind is inspect.Parameter.VAR_POSITIONAL for item in parameters.values()):
        return {}
    return {name: item.default for name, item in parameters.items()}


def is_default(usual: dict[str, Any], name: str, value: Any) -> bool:
    """Whether an argument need not be given."""
    return name in usual and _same(usual[name], value)


def _same(default: Any, value: Any) -> bool:
    if default is inspect.Parameter.empty:
        return False
    alike = type(default) is type(value) and isinstance(value, str | int | float | tuple)
    return default is value or (alike and repr(default) == repr(value))


def _by_attributes(value: Any) -> Given:
    """Return the arguments of an object that keeps each under its name, as transforms and settings do."""
    set_later = type(value).__init__ is object.__init__ and _kept(value)
    if isinstance(value, torch.Tensor | nn.Module) or set_later:
        raise Unseen(type(value).__name__)
    try:
        parameters = inspect.signature(type(value)).parameters
    except (TypeError, ValueError):
        raise Unseen(type(value).__name__) from None
    kept = _kept(value)
    found: dict[str, Any] = {}
    for name, item in parameters.items():
        if item.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
            continue
        if name in kept:
            found[name] = kept[name]
        elif item.default is inspect.Parameter.empty:
            raise Unseen(type(value).__name__)
    return (), found


def _kept(value: Any) -> dict[str, Any]:
    return dict(getattr(value, "__dict__", {}))
