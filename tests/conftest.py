"""What every test gets."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch._functorch import config as functorch

from autotune.trials.lock import FOLDER_VARIABLE


@pytest.fixture(autouse=True, scope="session")
def own_locks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the locks of these tests apart from those of searches that run beside them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(FOLDER_VARIABLE, str(tmp_path_factory.mktemp("locks")))
        yield


@pytest.fixture(autouse=True)
def torch_switches() -> Iterator[None]:
    """Set torch's process-wide switches back after a test that applied a config and kept it."""
    threads, benchmark = torch.get_num_threads(), torch.backends.cudnn.benchmark
    precision, budget = torch.get_float32_matmul_precision(), functorch.activation_memory_budget
    deterministic = torch.are_deterministic_algorithms_enabled()
    yield
    torch.set_num_threads(threads)
    torch.backends.cudnn.benchmark = benchmark
    torch.set_float32_matmul_precision(precision)
    functorch.activation_memory_budget = budget
    if torch.are_deterministic_algorithms_enabled() != deterministic:  # it imports inductor
        torch.use_deterministic_algorithms(deterministic)
