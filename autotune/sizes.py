"""Memory sizes and shares as people write them, on the command line and in Python."""

from __future__ import annotations

import re

from autotune.errors import UsageError

UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}


def parse_size(text: str | None, flag: str) -> int | None:
    """Return "20GiB", "500MB" or a number of bytes as bytes.

    Raises:
        UsageError: it is none of these.
    """
    if text is None:
        return None
    match = re.fullmatch(r"\s*(\d{1,18}(?:\.\d+)?)\s*([kmgt]i?)?b?\s*", text.lower())
    size = int(float(match[1]) * UNITS[match[2] or ""]) if match else 0
    if size <= 0:
        raise UsageError(f"{flag} {text}: not a size", hint="Sizes are written 20GiB, 500MiB or 8GB.")
    return size


def parse_share(text: str, flag: str) -> float:
    """Return "5%" or "0.05" as 0.05.

    Raises:
        UsageError: it is no share below one.
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(%?)\s*", text)
    share = float(match[1]) / (100 if match[2] else 1) if match else 1.0
    if share >= 1:
        raise UsageError(f"{flag} {text}: not a share", hint="It is written 5% or 0.05.")
    return share
