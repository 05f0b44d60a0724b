"""Trials of small scripts in processes of their own, through one fork server a module."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from autotune.trials.runner import ForkServerRunner
from tests.trials.trial_scripts import Trial, trial_with


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkServerRunner]:
    runner = ForkServerRunner(tmp_path_factory.mktemp("server") / "server.log")
    yield runner
    runner.close()


@pytest.fixture
def trial(runner: ForkServerRunner, tmp_path: Path) -> Trial:
    """Run one trial of a script whose parts `body` replaces."""
    return trial_with(runner, tmp_path)
