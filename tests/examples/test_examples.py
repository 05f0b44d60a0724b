"""Every example: what any training script handed to autotune must be, and that it trains to what it states."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

import autotune
from autotune.config import Config
from autotune.measure.training import Training
from autotune.tuned import Tuned
from autotune.workload.find import find_workload
from autotune.workload.static import look

CLIP_NORM = {"char_transformer": 1.0}
FULL_S = 1500  # a full training on a machine that has other work


def test_import_neither_trains_nor_parses(script: Path) -> None:
    found = look(script)
    assert found.trains is None
    assert found.parses_arguments is None
    assert found.has_guard


def test_import_loads_no_data(script: Path) -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(script.parent)!r}); import {script.stem}; print('sklearn' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert (done.stdout.strip(), done.stderr) == ("False", "")


def test_workload_is_found_with_its_baseline(example: ModuleType) -> None:
    workload = find_workload(example)
    assert workload is example.workload
    assert set(workload.baseline) == {"batch_size", "num_workers"}
    Config(**workload.baseline)


def test_trial_trains_the_same_objects(example: ModuleType) -> None:
    training = Training(example.workload, Config(batch_size=16, num_workers=0), device="cpu")
    before = {name: value.clone() for name, value in training.trainable().items()}
    loss = training.step(next(iter(training.loader)))
    assert loss is not None
    assert torch.isfinite(loss)
    assert all(not torch.equal(value, before[name]) for name, value in training.trainable().items())


def test_scale_makes_the_model_larger(example: ModuleType) -> None:
    sizes = [sum(item.numel() for item in example.build_model(scale).parameters()) for scale in (1, 2)]
    assert sizes[1] > 2 * sizes[0]


def test_default_config_computes_what_a_plain_loop_does(example: ModuleType, part: Callable[..., Any]) -> None:
    """Bit for bit: the mean loss, and every parameter and buffer afterwards."""
    dataset = part()
    loss_function = example.workload.loss

    seed_all()
    model = example.build_model()
    optimizer = example.build_optimizer(model.parameters())
    losses = torch.zeros(())
    plain_loader = DataLoader(dataset, batch_size=16, shuffle=True)
    for inputs, target in plain_loader:
        loss = loss_function(model(inputs), target)
        loss.backward()
        if example.__name__ in CLIP_NORM:
            nn.utils.clip_grad_norm_(model.parameters(), CLIP_NORM[example.__name__])
        optimizer.step()
        optimizer.zero_grad()
        losses += loss.detach()

    seed_all()
    tuned = Tuned(Config(), device="cpu")
    tuned_model = tuned.model(example.build_model())
    tuned_optimizer = tuned.optimizer(example.build_optimizer, tuned_model.parameters())
    loader = tuned.loader(dataset, batch_size=16, shuffle=True)
    mean_loss = example.train_epoch(tuned, tuned_model, tuned_optimizer, loader)

    assert mean_loss == losses.item() / len(plain_loader)
    found, expected = tuned_model.state_dict(), model.state_dict()
    assert list(found) == list(expected)
    assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_main_applies_a_config_and_says_that_the_target_is_missed(
    example: ModuleType,
    part: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    config = tmp_path / "best.toml"
    config.write_text("[options]\nbatch_size = 16\nnum_workers = 1\npersistent_workers = true\nchannels_last = true\n")
    seen = run_main(example, part, monkeypatch, "--config", str(config), "--epochs", "1")
    assert (seen.batch_size, seen.num_workers, seen.persistent_workers) == (16, 1, True)
    output = capsys.readouterr().out
    assert "not reached" in output
    assert seen.status == 1


def test_main_without_a_config_runs_the_baseline(
    example: ModuleType,
    part: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(example.BASELINE, "num_workers", 0)
    seen = run_main(example, part, monkeypatch, "--epochs", "3", "--throughput")
    assert seen.batch_size == example.workload.baseline["batch_size"]
    assert seen.status == 0
    output = capsys.readouterr().out
    assert re.search(r"^throughput: \d+\.\d+ samples/s over 2 epochs$", output, re.MULTILINE)
    assert "target" not in output


@pytest.mark.slow
@pytest.mark.timeout(FULL_S)
def test_baseline_reaches_the_stated_target(script: Path) -> None:
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=FULL_S)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^target .*: reached$", done.stdout, re.MULTILINE)


class Seen:
    """What a run of main() trained with."""

    def __init__(self, loader: Any, status: int) -> None:
        self.batch_size, self.num_workers = loader.batch_size, loader.num_workers
        self.persistent_workers = loader.persistent_workers
        self.status = status


def run_main(example: ModuleType, part: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, *arguments: str) -> Seen:
    """Run the example's main() on a part of its data."""
    loaders = []
    train_epoch = example.train_epoch

    def noting(tuned: autotune.Tuned, model: Any, optimizer: Any, loader: Any) -> float:
        loaders.append(loader)
        return train_epoch(tuned, model, optimizer, loader)

    monkeypatch.setattr(example, "train_epoch", noting)
    monkeypatch.setattr(example, "build_dataset", part)
    monkeypatch.setattr(sys, "argv", [f"{example.__name__}.py", "--device", "cpu", *arguments])
    status = example.main()
    return Seen(loaders[0], status)


def seed_all() -> None:
    torch.manual_seed(0)
    random.seed(0)
