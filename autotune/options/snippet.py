"""Plain PyTorch that does what an option's value does, by its place in a training script."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Snippet:
    """Lines of Python. Only what a plan holds as functions needs them: everything else in a plan is data to write down.

    They know these names: `model`, on its device; `dataset`; `tensor`, one of a batch, on the device;
    NUM_WORKERS is put in as a number, CHECKPOINT_BLOCKS as the path of the blocks to recompute or None. The variables
    of the lines are their own: no option's lines use those of another.
    """

    imports: tuple[str, ...] = ()
    first: str = ""
    """process-wide, before the device is used; carries out switches"""
    definitions: str = ""
    """constants, functions and classes that the other lines use"""
    dataset: str = ""
    """changes `dataset`"""
    loader: Mapping[str, str] = field(default_factory=dict)
    """arguments of the DataLoader, as expressions"""
    model: str = ""
    """changes `model`"""
    tensor: str = ""
    """changes `tensor`"""
    advice: str = ""
    """what whoever uses the lines must know, in one sentence"""

    def parts(self) -> list[str]:
        """Return the parts that there are, each of them Python by itself."""
        loader = [f"{name} = {expression}" for name, expression in self.loader.items()]
        parts = [*self.imports, self.first, self.definitions, self.dataset, *loader, self.model, self.tensor]
        return [part for part in parts if part]


def source_of(module: str, *names: str, rename: Mapping[str, str] | None = None) -> str:
    """Return the source of top-level definitions of a module of autotune, without importing it.

    Args:
        module: as it is imported.
        names: of functions, classes and constants, in the order wanted.
        rename: words of the text to replace.
    """
    spec = find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    text = Path(spec.origin).read_text(encoding="utf-8")
    lines, found = text.splitlines(), {}
    for node in ast.parse(text).body:
        start = min([node.lineno, *(part.lineno for part in getattr(node, "decorator_list", []))])
        named: ast.AST = node.targets[0] if isinstance(node, ast.Assign) else node
        found[getattr(named, "name", getattr(named, "id", ""))] = (
            lines[start - 1 : node.end_lineno],
            isinstance(node, ast.Assign),
        )
    result = ""
    for name in names:
        body, constant = found[name]
        result += "\n".join(body) + ("\n" if constant else "\n\n\n")
        if constant and names.index(name) + 1 < len(names) and not found[names[names.index(name) + 1]][1]:
            result += "\n\n"
    for before, after in (rename or {}).items():
        result = result.replace(before, after)
    return result.rstrip("\n")
