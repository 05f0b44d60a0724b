"""A look at the script before anything runs: does importing it start a training?"""

from __future__ import annotations

import ast
import importlib.util
from dataclasses import dataclass
from pathlib import Path

from autotune.errors import ScriptError, UsageError
from autotune.workload import is_batch_size

TRAINING_CALLS = frozenset({"backward", "manual_backward"})
TRAINERS = ("trainer", "model", "learner", "net", "module")
"""parts of names whose `.fit()` trains a network; a scaler's or an encoder's does not"""
DATA_FACTORIES = ("build_dataset", "build_loader")
FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Finding:
    """Something at the top level of the script."""

    line: int
    text: str


@dataclass(frozen=True)
class StaticLook:
    """What the source of a script shows."""

    trains: Finding | None
    """statement at the top level that trains when the script is imported"""
    parses_arguments: Finding | None
    """argparse at the top level"""
    has_guard: bool
    has_workload: bool
    """whether it offers a workload, as far as shows: else it can only be run as it is"""


def look(script: Path) -> StaticLook:
    """Read the script's source.

    Raises:
        UsageError: no such script, or not a Python file.
        ScriptError: it has a syntax error.
    """
    source = _source(script)
    try:
        tree = ast.parse(source, filename=str(script))
    except SyntaxError as error:
        line = f'  File "{script}", line {error.lineno}\n    {(error.text or "").strip()}\n'
        raise ScriptError(f"{script} cannot be parsed: {error.msg}", traceback=line) from None
    except (ValueError, RecursionError) as error:
        raise ScriptError(f"{script} cannot be parsed: {error}") from None
    functions = _functions(tree)
    top_level = [node for node in tree.body if not isinstance(node, FUNCTION | ast.ClassDef) and not _guard(node)]
    lines = source.splitlines()

    def first(test: object) -> Finding | None:
        for node in top_level:
            call = next((call for call in _calls(node) if test(call)), None)  # type: ignore[operator]
            if call is not None:
                return Finding(call.lineno, lines[call.lineno - 1].strip())
        return None

    return StaticLook(
        trains=first(lambda call: _trains(call, functions, set())),
        parses_arguments=first(lambda call: _called(call) in ("parse_args", "parse_known_args")),
        has_guard=any(_guard(node) for node in tree.body),
        has_workload=any(_imports_autotune(node) for node in ast.walk(tree)) or _has_factories(tree, functions),
    )


def _source(script: Path) -> str:
    if not script.exists():
        raise UsageError(f"no such script: {script}")
    if script.is_dir():
        raise UsageError(f"{script} is a folder; name the script in it")
    if script.suffix != ".py":
        hint = "Export it first: jupyter nbconvert --to script" if script.suffix == ".ipynb" else ""
        raise UsageError(f"{script} is not a Python script: its name does not end in .py", hint=hint)
    try:
        return importlib.util.decode_source(script.read_bytes())  # a coding line and a byte-order mark included
    except (UnicodeDecodeError, SyntaxError, LookupError):
        raise UsageError(f"{script} is not a Python script: it is not text in UTF-8, nor in what it says") from None
    except OSError as error:
        raise UsageError(f"cannot read {script}: {error.strerror}") from None


def _guard(node: ast.stmt) -> bool:
    """Whether `node` is `if __name__ == "__main__":`."""
    if not isinstance(node, ast.If):
        return False
    names = {item.id for item in ast.walk(node.test) if isinstance(item, ast.Name)}
    values = {item.value for item in ast.walk(node.test) if isinstance(item, ast.Constant)}
    return "__name__" in names and "__main__" in values


def _bound(node: ast.stmt) -> list[str]:
    """Return the names that a statement of the top level binds."""
    if isinstance(node, FUNCTION | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Import | ast.ImportFrom):
        return [alias.asname or alias.name for alias in node.names]
    return [item.id for item in ast.walk(node) if isinstance(item, ast.Name) and isinstance(item.ctx, ast.Store)]


def _imports_autotune(node: ast.AST) -> bool:
    names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
    if isinstance(node, ast.ImportFrom) and node.level == 0:
        names = [node.module or ""]
    return any(name.partition(".")[0] == "autotune" for name in names)


def _has_factories(tree: ast.Module, functions: dict[str, FUNCTION]) -> bool:
    """Whether the script has functions of conventional names that can be called as a workload's are.

    Many scripts have a `build_model(args)` of their own. An imported one tells by the script's own calls of it.
    """
    names = {name for node in tree.body for name in _bound(node)}
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    given = {_called(call) for call in calls if call.args or call.keywords}

    def is_factory(name: str, *, of_data: bool) -> bool:
        if name not in functions:
            return name in names - given
        needed = _needed(functions[name])
        return not needed or (of_data and len(needed) == 1 and is_batch_size(needed[0]))

    return is_factory("build_model", of_data=False) and any(is_factory(name, of_data=True) for name in DATA_FACTORIES)


def _needed(function: FUNCTION) -> list[str]:
    """Return the arguments without a default that a function takes."""
    given = function.args
    positional = [*given.posonlyargs, *given.args]
    by_name = [item for item, default in zip(given.kwonlyargs, given.kw_defaults, strict=True) if default is None]
    return [item.arg for item in [*positional[: len(positional) - len(given.defaults)], *by_name]]


def _functions(tree: ast.Module) -> dict[str, FUNCTION]:
    """Return the script's functions by name, its methods by ".name", and what making an object of a class runs."""
    found = {node.name: node for node in tree.body if isinstance(node, FUNCTION)}
    for node in tree.body:
        for item in node.body if isinstance(node, ast.ClassDef) else ():
            if isinstance(item, FUNCTION):
                found[f".{item.name}"] = item
                if item.name == "__init__" and isinstance(node, ast.ClassDef):
                    found[node.name] = item
    return found


def _calls(node: ast.AST) -> list[ast.Call]:
    """Return the calls made when `node` runs: not those in functions that it only defines."""
    found: list[ast.Call] = []
    pending: list[ast.AST] = [node]
    while pending:
        item = pending.pop()
        if isinstance(item, FUNCTION | ast.Lambda | ast.ClassDef) and item is not node:
            continue
        if isinstance(item, ast.Call):
            found.append(item)
        pending.extend(ast.iter_child_nodes(item))
    return sorted(found, key=lambda call: (call.lineno, call.col_offset))


def _called(call: ast.Call) -> str:
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""


def _trains(call: ast.Call, functions: dict[str, FUNCTION], seen: set[str]) -> bool:
    """Whether the call trains, directly or through functions and methods of the script (those as ".name")."""
    name = _called(call)
    if isinstance(call.func, ast.Attribute):
        # `.step()` alone is no proof: schedulers and samplers have one too
        if name in TRAINING_CALLS or (name in ("fit", "train") and _is_trainer(call.func.value, name)):
            return True
        name = f".{name}"
    if name not in functions or name in seen:
        return False
    seen.add(name)
    body = functions[name].body
    return any(_trains(inner, functions, seen) for statement in body for inner in _calls(statement))


def _is_trainer(owner: ast.expr, method: str) -> bool:
    """Whether what has the method is a trainer by its name; `model.train()` only sets a mode."""
    if isinstance(owner, ast.Call):
        owner = owner.func
    name = owner.attr if isinstance(owner, ast.Attribute) else owner.id if isinstance(owner, ast.Name) else ""
    return any(part in name.lower() for part in (TRAINERS if method == "fit" else TRAINERS[:1]))
