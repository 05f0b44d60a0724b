"""Real searches on the card, as a user starts them: the examples, and an image model of a known library."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from autotune.config import Config

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(150)]

ROOT = Path(__file__).parents[2]
IMAGES = """\
import torch
import torchvision
from torch.utils.data import TensorDataset
import autotune

workload = autotune.Workload(
    model=lambda: torchvision.models.mobilenet_v3_small(num_classes=10),
    dataset=lambda: TensorDataset(torch.randn(512, 3, 64, 64), torch.randint(0, 10, (512,))),
    loss=torch.nn.CrossEntropyLoss(),
    baseline={"batch_size": 32},
)
"""


def search(script: Path, out: Path, *flags: str) -> Config:
    command = [sys.executable, "-m", "autotune", "search", str(script), "--out", str(out), "--trials", "3", "--quick"]
    command += ["--verify", "none", "--exclude", "compile_mode", "--trial-budget", "2", *flags]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=130)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert (out / "report.html").exists()
    return Config.load(out / "best.toml")


@pytest.mark.parametrize("example", ["char_transformer", "digits_cnn"])
def test_an_example(example, tmp_path):
    if example == "digits_cnn":
        pytest.importorskip("sklearn")
    assert search(ROOT / "examples" / f"{example}.py", tmp_path / "run").value("batch_size") >= 8


def test_an_image_model_of_torchvision(tmp_path):
    if importlib.util.find_spec("torchvision") is None:
        pytest.skip("torchvision is not installed")
    script = tmp_path / "train.py"
    script.write_text(IMAGES)
    assert search(script, tmp_path / "run").value("batch_size") >= 8
