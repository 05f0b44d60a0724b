"""The checks: every module in this folder is one, found by looking, so that a new check is one file.

A check has a docstring whose first line says what it looks for, and `check(context)`, which yields findings: only what
gains more than the thresholds in `doctor/context.py`, or what may train wrongly. It sets back what it changes.
"""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType


def all_checks() -> dict[str, ModuleType]:
    """Return every check by name."""
    return {item.name: importlib.import_module(f"{__name__}.{item.name}") for item in pkgutil.iter_modules(__path__)}
