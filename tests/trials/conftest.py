"""Trials of small scripts in processes of their own, through one fork server a module."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from autotune.trials.runner import ForkServerRunner
from tests.trials.trial_scripts import Ran, Trial, make_spec


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkServerRunner]:
    runner = ForkServerRunner(tmp_path_factory.mktemp("server") / "server.log")
    yield runner
    runner.close()


@pytest.fixture
def trial(runner: ForkServerRunner, tmp_path: Path) -> Trial:
    """Run one trial of a script whose parts `body` replaces."""

    def run(body: str = "", report: Any = None, **changes: Any) -> Ran:
        spec, log = make_spec(tmp_path, body, **changes), tmp_path / "log"
        messages: list[dict[str, Any]] = []
        record = runner.run(spec, log, report or messages.append)
        pid = tmp_path / "pid"
        return Ran(record, log, int(pid.read_text()) if pid.exists() else 0, messages)

    return run
