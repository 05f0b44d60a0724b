"""The order of windows: every round runs each arm once, and the orders cancel drift."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

Arm = TypeVar("Arm")


def mirrored(arms: Sequence[Arm], rounds: int, seed: int) -> list[tuple[Arm, ...]]:
    """Return rounds over `arms`, every other one reversed, the first in random order.

    A steady drift then shifts all arms alike.
    """
    order = list(arms)
    random.Random(seed).shuffle(order)
    return [tuple(order if index % 2 == 0 else reversed(order)) for index in range(rounds)]


def abba(first: Arm, second: Arm, rounds: int, seed: int) -> list[tuple[Arm, Arm]]:
    """Return rounds over two arms as AB BA BA AB BA AB AB BA ..., which arm is A being random.

    The orders follow the Thue-Morse sequence: two rounds cancel a linear drift, four a quadratic one too.
    """
    pair = [first, second]
    random.Random(seed).shuffle(pair)
    a, b = pair
    return [(a, b) if index.bit_count() % 2 == 0 else (b, a) for index in range(rounds)]
