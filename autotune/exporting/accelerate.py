"""accelerate: the Accelerator's arguments and a loop with it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from autotune.exporting.base import Export, Target
from autotune.exporting.python import (
    PIECES,
    Source,
    arguments,
    assemble,
    head,
    lay_out,
    make_loader,
    make_optimizer,
    prepare_model,
)

PRECISION = {"bfloat16": "bf16", "float16": "fp16"}
USAGE = """
Needs accelerate. Yours are the names model, dataset, loss_function and optimizer_class:

    accelerator = Accelerator(**ACCELERATOR)
    model = prepare_model(model)
    optimizer = make_optimizer(optimizer_class, model.parameters(), lr=1e-3)
    loader = make_loader(dataset, shuffle=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for epoch in range(epochs):
        losses = train_epoch(accelerator, model, loader, loss_function, optimizer)
"""


class Accelerate(Target):
    name = "accelerate"
    help = "Arguments of Accelerate's Accelerator and of the DataLoader, and a loop with them"
    suffix = ".py"
    fields = PIECES | {"worker_affinity", "non_blocking", "accumulation", "autocast_dtype", "scale_gradients"}
    reasons = {"device_prefetch": "Accelerate copies each batch on the stream of the step"}

    def write(self, export: Export) -> str:
        whole, export = export, self.expressed(export)
        found = _accelerator(export)
        imports = ["import torch", "from accelerate import Accelerator", "from torch.utils.data import DataLoader"]
        if "dataloader_config" in found:
            imports.append("from accelerate.utils import DataLoaderConfiguration")
        return assemble(
            export,
            head(whole, self, USAGE),
            imports,
            [
                f'ACCELERATOR = dict(\n{arguments(found, "    ")})\n"""Arguments of the Accelerator."""',
                prepare_model(
                    export, device=False, doc="Return the model, changed in place, before accelerator.prepare."
                ),
                make_loader(export),
                make_optimizer(export),
                laid_out := lay_out(export),
                _train_epoch("lay_out(batch)" if laid_out else "batch"),
            ],
        )

    def caveats(self, export: Export) -> Iterator[str]:
        if export.on_cpu:
            yield "cpu is set since the settings were measured on a CPU."
        if export.plan.accumulation > 1:
            yield (
                f"Accelerate divides each loss by {export.plan.accumulation}, so that the last update of an epoch, of "
                "fewer batches, is smaller than the mean over its samples, which autotune.Tuned takes."
            )


def _accelerator(export: Export) -> dict[str, Any]:
    plan = export.plan
    found: dict[str, Any] = {"mixed_precision": "no"}
    if export.on_cpu:
        found["cpu"] = True
    if plan.autocast_dtype is not None:
        found["mixed_precision"] = PRECISION[plan.autocast_dtype]
    if plan.accumulation > 1:
        found["gradient_accumulation_steps"] = plan.accumulation
    if plan.non_blocking:
        found["dataloader_config"] = Source("DataLoaderConfiguration(non_blocking=True)")
    return found


def _train_epoch(batch: str) -> str:
    return f'''
def train_epoch(accelerator, model, loader, loss_function, optimizer, clip_norm=None):
    """Train for one epoch; return the loss of each batch."""
    model.train()
    losses = []
    for batch in loader:
        with accelerator.accumulate(model):
            inputs, target = {batch}
            with accelerator.autocast():
                loss = loss_function(model(inputs), target)
            losses.append(loss.detach())
            accelerator.backward(loss)
            if clip_norm is not None and accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), clip_norm)
            optimizer.step()
            optimizer.zero_grad()
    return losses
'''
