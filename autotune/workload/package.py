"""A script that is a module of a package: run as `python -m package.script` does, not as `python script.py`."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
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

    def has(self, module: str) -> bool:
        """Whether a module, by its dotted name, is of the same package."""
        return bool(self.module) and module.partition(".")[0] == self.module.partition(".")[0]

    def importing(self, module: str) -> str:
        """Return the line by which a module beside this one imports another one of its package, or itself.

        It has as many dots as there are packages, so that it tells the outermost of them.
        """
        if not self.module:
            return f"import {module}"
        packages = self.module.split(".")[:-1]
        inside, _, name = module.rpartition(".")
        within = inside.split(".")[1:] if inside else packages[1:]
        return f"from {'.' * len(packages)}{'.'.join(within)} import {name}"


def place_of(script: Path) -> Place:
    """Return where a script stands, by its resolved path: in a package, or by itself.

    In a package where `python script.py` would fail at its imports: it imports relatively, or what is found in a folder
    above it alone, as its own package is that `python -m` is run beside. In the first case its package is the folder
    that it lies in, and what that is a package of.
    """
    source = script.read_bytes()
    imports = list(_imports(ast.parse(source, str(script))))
    levels = max((item.level for item in imports if isinstance(item, ast.ImportFrom)), default=0)
    names, folder = [script.stem], script.parent
    while levels and (len(names) <= levels or (folder / "__init__.py").is_file()):
        names.append(folder.name)
        folder = folder.parent
    if not levels and b"sys.path" not in source:  # else it sees to that itself
        folder = _above(script, {name for item in imports for name in _absolute(item)}) or folder
        names += [parent.name for parent in script.parents[: len(script.parts) - len(folder.parts) - 1]]
    if len(names) > 1 and all(name.isidentifier() for name in names):
        return Place(folder, ".".join(reversed(names)))
    return Place(script.parent, "")


def _imports(node: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """Yield the imports of a script, leaving out what it has another way for."""
    if isinstance(node, ast.Try) and any(_is_of_imports(handler) for handler in node.handlers):
        return
    if isinstance(node, ast.If) and "__package__" in ast.dump(node.test):
        return
    if isinstance(node, ast.Import | ast.ImportFrom):
        yield node
    for child in ast.iter_child_nodes(node):
        yield from _imports(child)


def _is_of_imports(handler: ast.ExceptHandler) -> bool:
    """Whether an except clause takes an import that fails."""
    return handler.type is None or any(name in ast.dump(handler.type) for name in ("ImportError", "ModuleNotFound"))


def _absolute(item: ast.Import | ast.ImportFrom) -> Iterator[str]:
    """Yield the outermost modules or packages that a statement imports by their whole names."""
    if isinstance(item, ast.Import):
        yield from (alias.name.partition(".")[0] for alias in item.names)
    elif item.module and not item.level:
        yield item.module.partition(".")[0]


def _above(script: Path, names: set[str]) -> Path | None:
    """Return the nearest folder above the script's own that has what it imports and Python does not find.

    None where Python finds all, or where one lies beside the script: then it is run from there.
    """
    missing = {name for name in names if not _is_found(name)}
    if any(_has(script.parent, name) for name in missing):
        return None
    return next((folder for folder in script.parents[1:] if any(_has(folder, name) for name in missing)), None)


def _is_found(name: str) -> bool:
    """Whether Python finds a module in a new process: what an earlier run of the script has imported does not count."""
    return any(finder.find_spec(name, None) is not None for finder in sys.meta_path)


def _has(folder: Path, name: str) -> bool:
    """Whether a folder has a module or package of that name; a folder of other files is none."""
    inside = folder / name
    return (folder / f"{name}.py").is_file() or any(inside.glob("*.py")) or any(inside.glob("*/*.py"))
