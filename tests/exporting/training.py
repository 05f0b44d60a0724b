"""A small training, by `Tuned` and by exported files: run as a program, each training in a process of its own.

    python -m tests.exporting.training tuned OUT CONFIG ...
    python -m tests.exporting.training exported OUT FILE ...

Writes the losses of every batch, and of the weights at the end, as JSON. Fork after torch was imported: its import
is what takes time.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

import torch
import torch._dynamo  # by optimizers, in every process
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset

from autotune.config import Config
from autotune.tuned import Tuned

SAMPLES, EPOCHS, BATCH = 22, 2, 4


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.convolution, self.norm, self.act = nn.Conv2d(6, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU()

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return images + self.act(self.norm(self.convolution(images)))


class Pictures(nn.Module):
    """Convolutions, BatchNorm, repeated blocks, dropout, modules with an inplace switch."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 6, 3, padding=1)
        self.blocks = nn.ModuleList(Block() for _ in range(3))
        self.head = nn.Sequential(nn.Dropout(0.3), nn.Linear(6, 12), nn.SiLU(), nn.Linear(12, 4))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        images = self.stem(images)
        for block in self.blocks:
            images = block(images)
        return self.head(images.mean((2, 3)))


def layers() -> nn.Module:
    """A model that is an nn.Sequential itself."""
    return nn.Sequential(
        nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6), nn.ReLU(), nn.Conv2d(6, 6, 3), nn.ReLU(), nn.Flatten(), nn.Linear(96, 4)
    )


MODELS = {"pictures": Pictures, "layers": layers}


def dataset() -> TensorDataset:
    generator = torch.Generator().manual_seed(3)
    return TensorDataset(
        torch.randn(SAMPLES, 3, 8, 8, generator=generator), torch.randint(0, 4, (SAMPLES,), generator=generator)
    )


def own_arguments(values: dict[str, object]) -> dict[str, object]:
    return {"shuffle": True} if "batch_size" in values else {"shuffle": True, "batch_size": BATCH}


def by_tuned(model: nn.Module, values: dict[str, object]) -> list[torch.Tensor]:
    tuned, losses = Tuned(Config(**values)), []
    model = tuned.model(model)
    optimizer = tuned.optimizer(torch.optim.AdamW, model.parameters(), lr=1e-2)
    loader = tuned.loader(dataset(), **own_arguments(values))
    for _ in range(EPOCHS):
        model.train()
        for inputs, target in loader:
            with tuned.autocast():
                loss = cross_entropy(model(inputs), target)
            losses.append(loss.detach())
            tuned.backward(loss)
            tuned.step(optimizer, clip_norm=0.5)
    return losses


def load(path: str) -> Any:
    """Return an exported file as a module."""
    spec = importlib.util.spec_from_file_location("exported", path)
    exported = importlib.util.module_from_spec(spec)
    sys.modules["exported"] = exported
    spec.loader.exec_module(exported)
    return exported


def by_file(model: nn.Module, values: dict[str, object], path: str) -> list[torch.Tensor]:
    exported, losses = load(path), []
    model = exported.prepare_model(model)
    loader = exported.make_loader(dataset(), **own_arguments(values))
    optimizer = exported.make_optimizer(torch.optim.AdamW, model.parameters(), lr=1e-2)
    for _ in range(EPOCHS):
        losses += exported.train_epoch(model, loader, cross_entropy, optimizer, clip_norm=0.5)
    return losses


def train(how: str, case: dict[str, object]) -> dict[str, object]:
    torch.manual_seed(0)
    model = MODELS[case["model"]]()
    torch.manual_seed(1)
    losses = by_tuned(model, case["values"]) if how == "tuned" else by_file(model, case["values"], case["file"])
    weights = [float(item.double().sum()).hex() for item in model.state_dict().values()]
    return {"losses": [float(loss).hex() for loss in losses], "weights": weights, "keys": list(model.state_dict())}


def main(how: str, cases_file: str, out: str) -> None:
    cases = json.loads(Path(cases_file).read_text())
    for name, case in cases.items():
        child = os.fork()
        if child == 0:
            try:
                found = train(how, case)
            except BaseException:
                found = {"error": traceback.format_exc()}
            (Path(out) / f"{name}.{how}.json").write_text(json.dumps(found))
            os._exit(0)
        os.waitpid(child, 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
