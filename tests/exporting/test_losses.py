"""An exported PyTorch file gives the losses of `Tuned`, bit for bit, in processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from autotune.config import Config
from autotune.exporting import TARGETS, Export
from autotune.options import OPTIONS

pytestmark = pytest.mark.timeout(600)

ROOT = Path(__file__).parents[2]
CASES = {
    "defaults": {},
    "batch_size": {"batch_size": 8},
    "drop_last": {"batch_size": 4, "drop_last": True},
    "accumulation": {"batch_size": 4, "accumulation": 4},  # 22 samples: the last update of an epoch has 6
    "bf16": {"batch_size": 4, "precision": "bf16"},
    "fp16": {"batch_size": 4, "precision": "fp16"},
    "fp16_accumulated": {"batch_size": 4, "precision": "fp16", "accumulation": 4},
    "workers": {"num_workers": 1, "prefetch_factor": 4, "persistent_workers": True, "worker_affinity": True},
    "forkserver": {"num_workers": 1, "multiprocessing_context": "forkserver"},
    "cached": {"batch_size": 8, "num_workers": 1, "cache_dataset": True, "multiprocessing_context": "fork"},
    "channels_last": {"channels_last": True},
    "checkpointed": {"checkpoint_segments": 2},
    "in_place": {"inplace_activations": "all"},
    "in_place_but": {"inplace_activations": "all but blocks.*.act:ReLU"},
    "foreach": {"optimizer_impl": "foreach"},
    "fused": {"optimizer_impl": "fused"},
    "switches": {
        "num_threads": 1,
        "matmul_precision": "medium",
        "cudnn_benchmark": True,
        "deterministic": True,
        "expandable_segments": True,
        "pin_memory": False,
    },
    "prefetched": {"device_prefetch": True, "pin_memory": False},
    "together": {
        "batch_size": 4,
        "accumulation": 2,
        "precision": "bf16",
        "channels_last": True,
        "checkpoint_segments": 3,
        "optimizer_impl": "fused",
        "num_workers": 1,
    },
    "layers": {"channels_last": True, "checkpoint_segments": 3},
}
COMPILED = {
    "compiled": {"compile_mode": "default", "activation_memory_budget": 60},
    "compiled_layers": {"compile_mode": "default", "checkpoint_segments": 3},
}
ON_ACCELERATORS = {"device_prefetch", "pin_memory"}  # elsewhere they do nothing, or are refused


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    return train_all(CASES, tmp_path_factory.mktemp("losses"))


def train_all(cases, folder):
    """Train each case both ways; return what came of them by name."""
    described = {}
    for name, values in cases.items():
        path = folder / f"{name}.py"
        path.write_text(TARGETS["pytorch"].write(Export(Config(**values))))
        described[name] = {"values": values, "file": str(path), "model": "layers" if "layers" in name else "pictures"}
    (folder / "cases.json").write_text(json.dumps(described))
    for how in ("tuned", "exported"):
        subprocess.run(
            [sys.executable, "-W", "ignore", "-m", "tests.exporting.training", how, folder / "cases.json", folder],
            cwd=ROOT,
            # a pool of compile processes in each training would wait for its like
            env={**os.environ, "OMP_NUM_THREADS": "1", "TORCHINDUCTOR_COMPILE_THREADS": "1"},
            check=True,
            timeout=600,
        )
    return {
        name: [json.loads((folder / f"{name}.{how}.json").read_text()) for how in ("tuned", "exported")]
        for name in cases
    }


def check(tuned, exported, accumulation=1):
    assert "error" not in tuned, tuned["error"]
    assert "error" not in exported, exported["error"]
    assert exported["losses"] == tuned["losses"]
    assert exported["weights"] == tuned["weights"]
    assert exported["keys"] == tuned["keys"]
    assert len(set(exported["losses"])) > len(exported["losses"]) / 2  # it trained


@pytest.mark.parametrize("name", CASES)
def test_same_losses_as_tuned(name, trained):
    check(*trained[name])


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_same_losses_as_tuned_compiled(tmp_path):
    for tuned, exported in train_all(COMPILED, tmp_path).values():
        check(tuned, exported)


def test_every_option_is_among_the_cases():
    turned = {
        name
        for values in (*CASES.values(), *COMPILED.values())
        for name, value in values.items()
        if value != OPTIONS[name].default
    }
    assert turned >= set(OPTIONS) - ON_ACCELERATORS


def test_cases_differ_where_numbers_do(trained):
    losses = {name: tuple(exported["losses"]) for name, (_, exported) in trained.items()}
    for name in ("batch_size", "drop_last", "accumulation", "bf16", "fp16"):
        assert losses[name] != losses["defaults"]
    assert losses["fp16"] != losses["fp16_accumulated"]
