"""What the probe finds out about the device before and beside the script's own doing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from autotune.device import device_named
from autotune.probing.device_facts import device_facts


@pytest.fixture
def restored() -> Iterator[None]:
    matmul = torch.backends.cuda.matmul
    before = matmul.fp32_precision
    yield
    matmul.fp32_precision = before


@pytest.mark.usefixtures("restored")
def test_a_script_that_rounds_float32_by_torchs_own_new_names_is_probed() -> None:
    """Torch refuses the old question then, and so did the probe."""
    torch.backends.cuda.matmul.fp32_precision = "tf32"
    assert device_facts(device_named("cpu"), None)["matmul_precision"] != "highest"


def test_the_free_bytes_are_those_that_the_probe_began_with() -> None:
    assert device_facts(device_named("cpu"), 123)["device_free_bytes"] == 123
