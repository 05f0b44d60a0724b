"""A look at the script before anything runs: does importing it start a training?"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

from autotune.errors import ScriptError, UsageError

TRAINING_CALLS = frozenset({"backward", "fit", "manual_backward"})
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
    functions = {node.name: node for node in tree.body if isinstance(node, FUNCTION)}
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
    )


def _source(script: Path) -> str:
    if not script.exists():
        raise UsageError(f"no such script: {script}")
    if script.is_dir():
        raise UsageError(f"{script} is a folder; name the script in it")
    try:
        return script.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise UsageError(f"{script} is not a Python script: it is not UTF-8 text") from None
    except OSError as error:
        raise UsageError(f"cannot read {script}: {error.strerror}") from None


def _guard(node: ast.stmt) -> bool:
    """Whether `node` is `if __name__ == "__main__":`."""
    if not isinstance(node, ast.If):
        return False
    names = {item.id for item in ast.walk(node.test) if isinstance(item, ast.Name)}
    values = {item.value for item in ast.walk(node.test) if isinstance(item, ast.Constant)}
    return "__name__" in names and "__main__" in values


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
    """Whether the call trains, directly or through functions of the script."""
    name = _called(call)
    if isinstance(call.func, ast.Attribute):
        # `.step()` alone is no proof: schedulers and samplers have one too
        return name in TRAINING_CALLS
    if name not in functions or name in seen:
        return False
    seen.add(name)
    body = functions[name].body
    return any(_trains(inner, functions, seen) for statement in body for inner in _calls(statement))
