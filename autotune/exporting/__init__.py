"""A config in the words of others: plain PyTorch, other training frameworks, data. One module a target."""

from __future__ import annotations

import difflib

from autotune.errors import UsageError
from autotune.exporting.accelerate import Accelerate
from autotune.exporting.base import Export, Target
from autotune.exporting.json import Json
from autotune.exporting.lightning import Lightning
from autotune.exporting.pytorch import PyTorch
from autotune.exporting.transformers import Transformers
from autotune.exporting.yaml import Yaml

__all__ = ["TARGETS", "Export", "Target", "target_named"]

TARGETS: dict[str, Target] = {
    target.name: target for target in (PyTorch(), Lightning(), Accelerate(), Transformers(), Json(), Yaml())
}


def target_named(name: str) -> Target:
    """Return the target called `name`.

    Raises:
        UsageError: there is none; names the nearest one.
    """
    if name in TARGETS:
        return TARGETS[name]
    near = difflib.get_close_matches(name.lower(), TARGETS, n=1)
    hint = f"Did you mean {near[0]}? " if near else ""
    raise UsageError(f"unknown format: {name}", hint=f"{hint}Formats: {', '.join(TARGETS)}")
