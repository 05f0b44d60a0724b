"""Exported files trained with by the real frameworks: run as a program, each training in a process of its own.

    python -m tests.exporting.frameworks TARGET CASES OUT

The model has no dropout and the data come in order, so that the random numbers that a framework draws do not matter.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import traceback
import warnings
from pathlib import Path
from typing import Any

import torch
import torch._dynamo  # by optimizers, in every process
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import Dataset

from autotune.config import Config
from autotune.tuned import Tuned
from tests.exporting.training import dataset, layers, load

warnings.simplefilter("ignore")  # of the frameworks, on a machine without an accelerator


def facts(loader: Any, optimizer: Any, losses: list[Any], model: nn.Module) -> dict[str, Any]:
    """Return what a framework made of the settings."""
    optimizer = getattr(optimizer, "optimizer", optimizer)
    convolution = next(item for item in model.modules() if isinstance(item, nn.Conv2d))
    return {
        "batch_size": loader.batch_sampler.batch_size,
        "drop_last": loader.batch_sampler.drop_last,
        "num_workers": loader.num_workers,
        "prefetch_factor": loader.prefetch_factor,
        "persistent_workers": loader.persistent_workers,
        "pin_memory": loader.pin_memory,
        "fused": optimizer.param_groups[0].get("fused"),
        "threads": torch.get_num_threads(),
        "channels_last": convolution.weight.is_contiguous(memory_format=torch.channels_last)
        and not convolution.weight.is_contiguous(),
        "losses": [float(loss).hex() for loss in losses],
    }


def tuned(exported: Any, values: dict[str, Any]) -> dict[str, Any]:
    """The same by `Tuned`."""
    tuned, losses, model = Tuned(Config(**values)), [], layers()
    model = tuned.model(model)
    optimizer = tuned.optimizer(torch.optim.AdamW, model.parameters(), lr=1e-2)
    loader = tuned.loader(dataset())
    for inputs, target in loader:
        with tuned.autocast():
            loss = cross_entropy(model(inputs), target)
        losses.append(loss.detach())
        tuned.backward(loss)
        tuned.step(optimizer)
    return facts(loader, optimizer, losses, model)


def lightning(exported: Any, values: dict[str, Any]) -> dict[str, Any]:
    import lightning as L

    losses: list[Any] = []

    class Mine(*((exported.LaidOut,) if hasattr(exported, "LaidOut") else ()), L.LightningModule):
        def __init__(self, network: nn.Module) -> None:
            super().__init__()
            self.network = exported.prepare_model(network)

        def training_step(self, batch: Any, index: int) -> Any:
            inputs, target = batch
            assert inputs.is_contiguous() != bool(values.get("channels_last"))
            loss = cross_entropy(self.network(inputs), target)
            losses.append(loss.detach())
            return loss

        def configure_optimizers(self) -> Any:
            return exported.make_optimizer(torch.optim.AdamW, self.parameters(), lr=1e-2)

    quiet = dict(logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
    trainer = L.Trainer(**exported.TRAINER, max_epochs=1, **quiet)
    module, loader = Mine(layers()), exported.make_loader(dataset())
    trainer.fit(module, loader)
    updates = trainer.global_step
    return {**facts(trainer.train_dataloader, trainer.optimizers[0], losses, module), "updates": updates}


def accelerate(exported: Any, values: dict[str, Any]) -> dict[str, Any]:
    from accelerate import Accelerator

    accelerator = Accelerator(**exported.ACCELERATOR)
    model, updates = exported.prepare_model(layers()), []
    optimizer = exported.make_optimizer(torch.optim.AdamW, model.parameters(), lr=1e-2)
    optimizer.register_step_post_hook(lambda *_: updates.append(1))
    loader = exported.make_loader(dataset())
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    losses = exported.train_epoch(accelerator, model, loader, cross_entropy, optimizer)
    return {**facts(loader, optimizer, losses, model), "updates": len(updates)}


class WithLoss(nn.Module):
    """A model as transformers' Trainer wants it."""

    def __init__(self) -> None:
        super().__init__()
        self.network, self.losses = layers(), []

    def forward(self, images: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        logits = self.network(images)
        loss = cross_entropy(logits, labels)
        self.losses.append(loss.detach())
        return {"loss": loss, "logits": logits}


class Dicts(Dataset):
    def __len__(self) -> int:
        return len(dataset())

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        image, label = dataset()[index]
        return {"images": image, "labels": label}


def transformers(exported: Any, values: dict[str, Any]) -> dict[str, Any]:
    from torch.utils.data import SequentialSampler
    from transformers import Trainer, TrainingArguments, default_data_collator

    class InOrder(Trainer):
        def _get_train_sampler(self, *args: Any, **kwargs: Any) -> Any:
            return SequentialSampler(self.train_dataset)

    model = exported.prepare_model(WithLoss())
    collate: Any = default_data_collator
    if hasattr(exported, "LaidOut"):
        collate = exported.LaidOut(collate)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    if hasattr(exported, "make_optimizer"):
        optimizer = exported.make_optimizer(torch.optim.AdamW, model.parameters(), lr=1e-2)
    constant = torch.optim.lr_scheduler.ConstantLR(optimizer, 1.0)
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder,
            **exported.TRAINING_ARGUMENTS,
            num_train_epochs=1,
            max_grad_norm=0,
            report_to="none",
            save_strategy="no",
            disable_tqdm=True,
        )
        trainer = InOrder(
            model, arguments, train_dataset=Dicts(), data_collator=collate, optimizers=(optimizer, constant)
        )
        trainer.train()
        loader = trainer.get_train_dataloader()
        return {**facts(loader, optimizer, model.losses, model), "updates": trainer.state.global_step}


def main(target: str, cases_file: str, out: str) -> None:
    __import__(target if target != "tuned" else "torch")  # once, before the forks
    for name, case in json.loads(Path(cases_file).read_text()).items():
        child = os.fork()
        if child == 0:
            try:
                torch.manual_seed(0)
                exported = None if target == "tuned" else load(case["files"][target])
                torch.manual_seed(0)
                found = globals()[target](exported, case["values"])
            except BaseException:
                found = {"error": traceback.format_exc()}
            (Path(out) / f"{name}.{target}.json").write_text(json.dumps(found))
            os._exit(0)
        os.waitpid(child, 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
