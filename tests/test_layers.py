"""Which part of the package imports which: an arrow never points back. Found by reading the code, not by running it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import autotune

PACKAGE = Path(autotune.__file__).parent
ONE_PART = {"config": "options"}
"""a config is checked by the options, and a space of options is one of configs"""


def part_of(name: str) -> str:
    """Return the folder or module at the top level that a file or a module lies in."""
    part = name.split(".")[0]
    return ONE_PART.get(part, part)


def imported(source: str) -> Iterator[str]:
    """Yield the modules of ours, without the package's name, that a source imports when it is loaded."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.ImportFrom) and node.module == "autotune":
            yield from (item.name for item in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("autotune."):
            yield (node.module or "").removeprefix("autotune.")
        elif isinstance(node, ast.Import):
            yield from (item.name.removeprefix("autotune.") for item in node.names if item.name.startswith("autotune."))


def test_no_part_is_imported_by_what_it_imports():
    arrows: dict[str, set[str]] = {}
    for path in PACKAGE.rglob("*.py"):
        part = part_of(path.relative_to(PACKAGE).parts[0].removesuffix(".py"))
        found = {part_of(name) for name in imported(path.read_text(encoding="utf-8"))}
        arrows.setdefault(part, set()).update(found - {part})
    assert {"search", "scripting", "trials", "measure", "options"} <= arrows.keys()
    TopologicalSorter(arrows).prepare()  # raises with the parts of a cycle
