"""JSON that every program reads: it has no word for a number that is not finite."""

from __future__ import annotations

import json
import math
from typing import Any


def strict_json(value: Any, *, indent: int | None = None, separators: tuple[str, str] | None = None) -> str:
    """Return plain data as JSON, with null for every number that is not finite."""
    return json.dumps(finite(value), allow_nan=False, indent=indent, separators=separators)


def finite(value: Any) -> Any:
    """Return plain data with None for every number that JSON has no word for."""
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
