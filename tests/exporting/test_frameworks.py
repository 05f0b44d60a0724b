"""What is exported for other frameworks, trained with by the real ones where they are installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from autotune.config import Config
from autotune.exporting import TARGETS, Export

pytestmark = pytest.mark.timeout(600)

ROOT = Path(__file__).parents[2]
FRAMEWORKS = ("lightning", "accelerate", "transformers")
LOADER = {"batch_size": 4, "num_workers": 1, "prefetch_factor": 4, "persistent_workers": True}
CASES = {
    "batch_size": {"batch_size": 4},
    "loader": {**LOADER, "drop_last": True, "multiprocessing_context": "fork", "num_threads": 1},
    "cached": {"batch_size": 8, "cache_dataset": True},
    "model": {"batch_size": 4, "channels_last": True, "checkpoint_segments": 3, "optimizer_impl": "fused"},
    "bf16": {"batch_size": 4, "precision": "bf16", "inplace_activations": "all"},
    "accumulation": {"batch_size": 4, "accumulation": 2},  # 22 samples: 6 batches, the last one of 2
}
UPDATES = {"batch_size": 6, "loader": 5, "cached": 3, "model": 6, "bf16": 6, "accumulation": 3}
ON_CPU = {"machine": {"torch_device": "cpu"}}
"""as the emitted file of a search on a CPU says it"""


@pytest.fixture(scope="module")
def cases(tmp_path_factory):
    """The cases, with a file for each framework; what `Tuned` makes of them stands beside."""
    folder = tmp_path_factory.mktemp("frameworks")
    described = {}
    for name, values in CASES.items():
        files = {}
        for target in FRAMEWORKS:
            path = folder / f"{name}_{target}.py"
            path.write_text(TARGETS[target].write(Export(Config(**values), ON_CPU)))
            files[target] = str(path)
        described[name] = {"values": values, "files": files}
    (folder / "cases.json").write_text(json.dumps(described))
    return folder


def train_all(target, folder):
    subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.exporting.frameworks", target, folder / "cases.json", folder],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""},
        check=True,
        timeout=500,
        capture_output=True,
    )
    return {name: json.loads((folder / f"{name}.{target}.json").read_text()) for name in CASES}


@pytest.mark.parametrize("target", FRAMEWORKS)
def test_trains_as_tuned_does(target, cases):
    if find_spec(target) is None:
        pytest.skip(f"{target} is not installed: pip install 'autotune[frameworks]'")
    expected, found = train_all("tuned", cases), train_all(target, cases)
    for name, by_framework in found.items():
        assert "error" not in by_framework, f"{name}: {by_framework['error']}"
        by_tuned, updates = expected[name], by_framework.pop("updates")
        assert updates == UPDATES[name]
        # losses bit for bit: with accumulation, too, since the update that weighs otherwise is the epoch's last
        assert by_framework == by_tuned, name


def test_lightning_clips_as_the_export_says():
    """Its plugin is asked for itself: a whole training in fp16 needs a card."""
    if find_spec("lightning") is None:
        pytest.skip("lightning is not installed: pip install 'autotune[frameworks]'")
    code = """
import torch
from lightning.pytorch.plugins import MixedPrecision
for precision, mixed in (("fp16", "16-mixed"), ("bf16", "bf16-mixed")):
    for impl in ("fused", "foreach"):
        optimizer = torch.optim.AdamW([torch.ones(2, requires_grad=True)], **{impl: True})
        optimizer.param_groups[0]["params"][0].grad = torch.ones(2)
        scaler = torch.amp.GradScaler("cpu") if precision == "fp16" else None
        try:
            MixedPrecision(mixed, "cpu", scaler=scaler).clip_gradients(optimizer, 1.0)
        except RuntimeError:
            print(precision, impl)
"""
    command = [sys.executable, "-W", "ignore", "-c", code]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    cases = [(precision, impl) for precision in ("fp16", "bf16") for impl in ("fused", "foreach")]
    warned = [
        f"{precision} {impl}"
        for precision, impl in cases
        if "does not clip" in TARGETS["lightning"].write(Export(Config(precision=precision, optimizer_impl=impl)))
    ]
    assert ended.stdout.splitlines() == warned
