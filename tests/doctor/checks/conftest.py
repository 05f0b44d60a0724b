"""Checks look at shares of a step's time: on a busy machine the threads of a small operation wait for each other."""

from __future__ import annotations

import pytest
import torch


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)  # set back by the fixture that every test gets
