"""Figures for people: digits only as many as the uncertainty supports, units always named."""

from __future__ import annotations

import math

GIB = 1 << 30
MIB = 1 << 20
KIB = 1 << 10
MAX_DIGITS = 4  # significant; no single run supports more
UNKNOWN = "?"


def rounded(value: float, half_width: float) -> str:
    """Return `value` so that one unit of its last digit is no more than `half_width`, where four digits allow it.

    A half-width that is not finite leaves one digit: 1260 +- 702 is "1300", and +- inf is "1000".
    """
    if not math.isfinite(value):
        return UNKNOWN
    if value == 0:
        return "0"
    leading = math.floor(math.log10(abs(value)))
    if not math.isfinite(half_width):
        places = -leading
    elif half_width <= 0:
        places = MAX_DIGITS - 1 - leading
    else:
        wanted = math.ceil(-math.log10(half_width))
        places = max(min(wanted, MAX_DIGITS - 1 - leading), -leading)
    return f"{round(value, places):.{max(places, 0)}f}"


def significant(value: float, digits: int = 3) -> str:
    """Return `value` in so many significant digits, never in powers of ten."""
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else UNKNOWN
    places = digits - 1 - math.floor(math.log10(abs(value)))
    return f"{round(value, places):.{max(places, 0)}f}"


def percent(share: float) -> str:
    """Return a share as percent: one decimal below ten, none above."""
    if not math.isfinite(share):
        return f"{UNKNOWN} %"
    value = 100 * share
    return f"{value:.1f} %" if abs(value) < 9.95 else f"{value:.0f} %"


def memory(count: int) -> str:
    """Return bytes as "52 bytes", "7.5 KiB", "306 MiB" or "7.12 GiB"."""
    if 0 < count < MIB // 10:
        return f"{count} bytes" if count < KIB else f"{significant(count / KIB)} KiB"
    return f"{significant(count / GIB)} GiB" if count >= GIB else f"{significant(count / MIB)} MiB"


def duration(seconds: float) -> str:
    """Return seconds as "31 ms", "0.31 s", "42 s", "3 min 20 s" or "2 h 5 min"."""
    if not math.isfinite(seconds):
        return UNKNOWN
    if 0 < seconds < 0.0995:
        return f"{significant(1e3 * seconds, 2)} ms"
    if seconds < 9.95:
        return f"{significant(seconds, 2)} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60} min"


def roughly(seconds: float) -> str:
    """Return a guessed duration, no finer than a guess is: "40 s", "9 min", "1 h 20 min"."""
    if not math.isfinite(seconds):
        return UNKNOWN
    if seconds < 90:
        return f"{round(seconds, -1 if seconds >= 20 else 0):.0f} s"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"{minutes} min"
    minutes = round(minutes, -1)
    return f"{minutes // 60} h {minutes % 60} min"
