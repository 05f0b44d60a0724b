"""Tests on a real card: `pytest -n 0 -m gpu tests/gpu`. Without one they are skipped; figures go to the test report."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from autotune.device import Device, device_named
from autotune.records import Limits, Source, TrialRecord, TrialSpec
from autotune.trials.runner import ForkServerRunner

GIB = 1 << 30
SCRIPT = Path(__file__).parent / "train.py"


@pytest.fixture(autouse=True)
def on_a_card(request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("gpu") and not torch.cuda.is_available():
        pytest.skip("no CUDA card here")


@pytest.fixture
def card() -> Iterator[Device]:
    """The card in this process, without a cap before and after."""
    device = device_named("cuda:0")
    torch.cuda.empty_cache()
    device.reset_peaks()
    yield device
    torch.cuda.set_per_process_memory_fraction(1.0)
    torch.cuda.empty_cache()


@pytest.fixture(scope="session")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkServerRunner]:
    runner = ForkServerRunner(tmp_path_factory.mktemp("server") / "server.log")
    yield runner
    runner.close()


@pytest.fixture
def trial(runner: ForkServerRunner, tmp_path: Path) -> Callable[..., TrialRecord]:
    """Run one short trial of train.py in a process of its own; its arguments say what goes wrong."""
    numbers = itertools.count()

    def run(
        *arguments: str, device_bytes: int = 8 * GIB, fixed_blocks: int | None = None, **config: Any
    ) -> TrialRecord:
        number = next(numbers)
        spec = TrialSpec(
            number=number,
            config={"batch_size": 64, **config},
            baseline={"batch_size": 64},
            source=Source(script=str(SCRIPT), arguments=arguments),
            device="cuda:0",
            limits=Limits(
                host_bytes=64 * GIB, device_bytes=device_bytes, timeout_s=90.0, budget_s=2.0, budget_max_s=4.0
            ),
            record_path=str(tmp_path / f"{number}.json"),
            fixed_blocks=fixed_blocks,
            target=0.2,
        )
        return runner.run(spec, tmp_path / f"{number}.log")

    return run
