"""Functions and classes of a script that cannot be imported without training: their text."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from pathlib import Path


def copied(script: Path, names: Iterable[str], written: Callable[[str], str]) -> str:
    """Return the text of what is called so at the top level of a script, with imports and constants that it uses.

    `written` returns a line that sets another variable of the script to the value it had.
    """
    text = script.read_text(encoding="utf-8")
    tree = ast.parse(text)
    defined: dict[str, ast.stmt] = {}
    imports: list[ast.stmt] = []
    others: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            imports.append(node)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            defined[node.name] = node
        elif isinstance(node, ast.Assign) and _is_constant(node.value):
            defined.update(dict.fromkeys(_stored(node), node))
        else:
            others |= _stored(node)
    needed: list[str] = []
    pending = list(names)
    while pending:
        name = pending.pop()
        if name in defined and name not in needed:
            needed.append(name)
            pending += _used(defined[name])
    used = {word for name in needed for word in _used(defined[name])}
    set_before = [written(name) for name in sorted(others & used - defined.keys())]
    kept = [node for node in imports if any(_bound(alias) in used for alias in node.names)]  # type: ignore[attr-defined]
    nodes = [node for node in tree.body if node in kept or any(defined[name] is node for name in needed)]
    lines = [_text(text, node) for node in nodes if node in kept]
    blocks = [_text(text, node) for node in nodes if node not in kept]
    return "\n\n\n".join(filter(None, ["\n".join(lines), "\n".join(set_before), *blocks]))


def _is_constant(node: ast.expr) -> bool:
    try:
        ast.literal_eval(node)
    except ValueError:
        return False
    return True


def _stored(node: ast.AST) -> set[str]:
    """Return the names that a statement sets."""
    return {item.id for item in ast.walk(node) if isinstance(item, ast.Name) and isinstance(item.ctx, ast.Store)}


def _used(node: ast.AST) -> set[str]:
    """Return the names that a function or class takes from around it."""
    arguments = {item.arg for item in ast.walk(node) if isinstance(item, ast.arg)}
    return {item.id for item in ast.walk(node) if isinstance(item, ast.Name)} - arguments - _stored(node)


def _bound(alias: ast.alias) -> str:
    return alias.asname or alias.name.partition(".")[0]


def _text(text: str, node: ast.stmt) -> str:
    first = min([node.lineno, *(item.lineno for item in getattr(node, "decorator_list", ()))])
    return "\n".join(text.splitlines()[first - 1 : node.end_lineno])
