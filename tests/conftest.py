"""What every test gets."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def torch_switches() -> Iterator[None]:
    """Set torch's process-wide switches back after a test that applied a config and kept it."""
    torch = sys.modules.get("torch")
    if torch is None:
        yield
        return
    before = torch.get_num_threads(), torch.backends.cudnn.benchmark
    yield
    torch.set_num_threads(before[0])
    torch.backends.cudnn.benchmark = before[1]
