"""Text that comes from users and their programs, made safe for a terminal."""

from __future__ import annotations

import re
from collections.abc import Mapping

from rich.text import Text

from autotune.options import Value

ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
BARS = "▁▂▃▄▅▆▇█"
ASCII_BARS = "_.-:=+*#"
FLAT = 0.02  # a spread below this share of the mean is drawn as a flat line


def clean(text: str) -> str:
    """Return `text` without terminal escapes and control characters; lines and tabs stay."""
    return CONTROLS.sub("", ESCAPES.sub("", text))


def plain(text: str, style: str = "") -> Text:
    """Return `text` as it is, however many brackets it holds: never read as rich's markup."""
    return Text(clean(text), style=style)


def value_text(value: Value) -> str:
    """Return a value as TOML spells it, without quotes."""
    return str(value).lower() if isinstance(value, bool) else clean(str(value))


def values_text(values: Mapping[str, Value]) -> str:
    """Return "batch_size=128, precision=bf16"."""
    return ", ".join(f"{name}={value_text(value)}" for name, value in values.items())


def sparkline(values: list[float], *, width: int = 32, ascii_only: bool = False) -> str:
    """Draw positive values, the last `width` of them, from their smallest to their largest."""
    bars = ASCII_BARS if ascii_only else BARS
    shown = values[-width:]
    if not shown:
        return ""
    low, high = min(shown), max(shown)
    if high - low < FLAT * (high + low) / 2:
        return bars[3] * len(shown)
    scale = (len(bars) - 1) / (high - low)
    return "".join(bars[round((value - low) * scale)] for value in shown)
