"""json: the config as data."""

from __future__ import annotations

import json
from typing import Any

from autotune import __version__
from autotune.exporting.base import Export, Target
from autotune.words.text import clean

TABLES = ("measured", "machine")


def as_data(export: Export, target: Target) -> dict[str, Any]:
    """Return the config with what stands beside it, as plain data: `Config(**data["options"])` reads it back."""
    found: dict[str, Any] = {"autotune": __version__, "options": dict(export.config)}
    for name in TABLES:
        if export.table(name):
            found[name] = _plain(export.table(name))
    if export.plan.checkpoint_blocks is not None:
        found["checkpoint_blocks"] = export.plan.checkpoint_blocks
    found["notes"] = export.notes
    found["without_effect"] = target.left_out(export)
    return found


class Json(Target):
    name = "json"
    help = "The config as JSON"
    suffix = ".json"

    def refusal(self, name: str, value: Any) -> str | None:
        return None  # data can say everything

    def write(self, export: Export) -> str:
        return json.dumps(as_data(export, self), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _plain(value: Any) -> Any:
    """Return what TOML holds as what JSON holds: dates as text, numbers that JSON lacks as text, too."""
    if isinstance(value, dict):
        return {clean(str(key)): _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, bool | int):
        return value
    finite = isinstance(value, float) and value - value == 0
    return value if finite else str(value)
