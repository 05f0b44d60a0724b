"""A script that is a module of a package: run as `python -m package.script` does, not as `python script.py`."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Place:
    """Where a script stands among the modules that it imports."""

    folder: Path
    """first on sys.path"""
    module: str
    """its dotted name; empty: it belongs to no package"""

    @property
    def command(self) -> str:
        """What Python is told to run, but for a script that belongs to no package."""
        return f"-m {self.module.removesuffix('.__main__')}"


def place_of(script: Path) -> Place:
    """Return where a script stands, by its resolved path: in a package where it imports relatively, else by itself.

    By itself, `python script.py` would fail at such an import. Its package is the folder that it lies in, and what
    that is a package of.
    """
    levels = _levels(ast.parse(script.read_bytes(), str(script)))
    names, folder = [script.stem], script.parent
    while levels and (len(names) <= levels or (folder / "__init__.py").is_file()):
        names.append(folder.name)
        folder = folder.parent
    if levels and all(name.isidentifier() for name in names):
        return Place(folder, ".".join(reversed(names)))
    return Place(script.parent, "")


def _levels(node: ast.AST) -> int:
    """Return the dots of the relative import with the most of them, leaving out what the script has another way for."""
    if isinstance(node, ast.Try) and any(_is_of_imports(handler) for handler in node.handlers):
        return 0
    if isinstance(node, ast.If) and "__package__" in ast.dump(node.test):
        return 0
    own = node.level if isinstance(node, ast.ImportFrom) else 0
    return max((own, *map(_levels, ast.iter_child_nodes(node))))


def _is_of_imports(handler: ast.ExceptHandler) -> bool:
    """Whether an except clause takes an import that fails."""
    return handler.type is None or any(name in ast.dump(handler.type) for name in ("ImportError", "ModuleNotFound"))
