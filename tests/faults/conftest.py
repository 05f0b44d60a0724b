"""What fault tests share with those of the command line and of trials, and with each other."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotune.trials.runner import ForkServerRunner
from tests.cli.conftest import process, run, server, write  # noqa: F401
from tests.trials.trial_scripts import Trial, trial_with


@pytest.fixture
def trial(server: ForkServerRunner, tmp_path: Path) -> Trial:  # noqa: F811
    """Run one trial of a script whose parts its argument replaces."""
    return trial_with(server, tmp_path)
