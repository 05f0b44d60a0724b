"""The dozen scripts in a folder of their own, with files of earlier runs, and trials that run there."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import numpy as np
import pytest

from autotune.trials.runner import ForkServerRunner
from tests.scripting.conftest import alone  # noqa: F401
from tests.workload.real_trials import SCRIPTS, Real

OUTPUTS = ("mnist_cnn.pt", "checkpoint.pth.tar", "model_best.pth.tar", "out-char/ckpt.pt", "fake_samples.pt",
           "netG_epoch_0.pth", "netG_epoch_1.pth", "history.csv", "last_run.json")  # fmt: skip
"""what the scripts write"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("project") / "scripts"
    shutil.copytree(SCRIPTS / "unmodified", path, ignore=shutil.ignore_patterns("__pycache__"))
    np.random.default_rng(0).integers(0, 256, 4096, dtype=np.uint8).tofile(path / "tokens.bin")
    (path / "out-char").mkdir()
    for name in OUTPUTS:
        (path / name).write_text("of an earlier run")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(path)
        patch.setenv("OMP_NUM_THREADS", "1")
        patch.setenv("PYTHONDONTWRITEBYTECODE", "1")
        yield path


@pytest.fixture(scope="module")
def sandboxed(folder):
    runner = ForkServerRunner(folder.parent / "server.log", sandbox=True)
    yield runner
    runner.close()


@pytest.fixture
def real(sandboxed, tmp_path):
    return Real(sandboxed, tmp_path)


@pytest.fixture
def copy(folder, tmp_path, monkeypatch):
    """Return a second folder with the scripts, for what may change files; it is the working folder."""
    target = tmp_path / "copy"
    shutil.copytree(folder, target)
    monkeypatch.chdir(target)
    return target


def files(folder):
    """Return each file of a folder with a hash of its content."""
    found = sorted(path for path in Path(folder).rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in found}
