"""One fork server for all real trials of these tests, and a short way to write a script."""

from __future__ import annotations

from textwrap import dedent

import pytest

from autotune.trials.runner import ForkServerRunner
from tests.workload.real_trials import Real

HEAD = """\
import torch
from torch import nn
from torch.utils.data import Dataset, IterableDataset, TensorDataset
import autotune
"""


@pytest.fixture(scope="session")
def runner(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        runner = ForkServerRunner(tmp_path_factory.mktemp("server") / "server.log")
        yield runner
        runner.close()


@pytest.fixture
def write(tmp_path):
    """Write a script under a name; return its path. The usual imports come first."""

    def write_script(text, name="script.py", head=HEAD):
        path = tmp_path / name
        path.write_text(head + dedent(text))
        return path

    return write_script


@pytest.fixture
def real(runner, tmp_path):
    folder = tmp_path / "records"
    folder.mkdir()
    return Real(runner, folder)
