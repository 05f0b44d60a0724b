"""Long lists of cases: some run always, the rest with the slow tests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

EVERY = 4


def some(cases: Iterable[Any]) -> list[Any]:
    """Return all cases as parameters, all but each fourth marked slow."""
    return [
        case if index % EVERY == 0 else pytest.param(case, marks=pytest.mark.slow) for index, case in enumerate(cases)
    ]
