"""lightning: arguments of Trainer and DataLoader, and what the module needs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from autotune.exporting.base import Export, Target
from autotune.exporting.python import (
    PIECES,
    arguments,
    assemble,
    head,
    lay_out,
    make_loader,
    make_optimizer,
    prepare_model,
)

PRECISION = {"bfloat16": "bf16-mixed", "float16": "16-mixed"}
USAGE = """
Needs lightning. In your own code:

    class Mine(L.LightningModule):
        def __init__(self, network):
            super().__init__()
            self.network = prepare_model(network)  # the nn.Module that training_step calls
        def configure_optimizers(self):
            return make_optimizer(optimizer_class, self.parameters(), lr=1e-3)

    L.Trainer(**TRAINER, max_epochs=...).fit(Mine(network), make_loader(dataset, shuffle=True))
"""
LAID_OUT = '''
class LaidOut:
    """Lays out every batch on the device: class Mine(LaidOut, L.LightningModule)."""

    def on_after_batch_transfer(self, batch, dataloader_idx):
        return super().on_after_batch_transfer(lay_out(batch), dataloader_idx)
'''


class Lightning(Target):
    name = "lightning"
    help = "Arguments of Lightning's Trainer and of the DataLoader, and what the module needs"
    suffix = ".py"
    fields = PIECES | {
        "worker_affinity",
        "non_blocking",  # as Lightning always copies to a CUDA device
        "accumulation",
        "autocast_dtype",
        "scale_gradients",
    }
    reasons = {"device_prefetch": "Lightning copies each batch on the stream of the step"}

    def write(self, export: Export) -> str:
        whole, export = export, self.expressed(export)
        usage, laid_out = USAGE, lay_out(export)
        if laid_out:
            usage = usage.replace("Mine(L.", "Mine(LaidOut, L.")
        return assemble(
            export,
            head(whole, self, usage),
            ["import torch", "from torch.utils.data import DataLoader"],
            [
                f'TRAINER = dict(\n{arguments(_trainer(export), "    ")})\n"""Arguments of L.Trainer."""',
                prepare_model(export, device=False, doc="Return the network, changed in place."),
                make_loader(export),
                make_optimizer(export),
                laid_out,
                LAID_OUT if laid_out else "",
            ],
        )

    def caveats(self, export: Export) -> Iterator[str]:
        if export.on_cpu:
            yield 'accelerator is "cpu" since the settings were measured on a CPU.'
        dtype = export.plan.autocast_dtype
        if dtype is not None and export.plan.optimizer.get("fused"):
            yield (
                f"Lightning does not clip gradients under {PRECISION[dtype]} where the optimizer is fused: it stops "
                "with a RuntimeError. Where you clip, leave fused=True out of make_optimizer."
            )
        if export.plan.accumulation > 1:
            yield (
                f"accumulate_grad_batches divides each loss by {export.plan.accumulation}, so that the last update of "
                "an epoch, of fewer batches, is smaller than the mean over its samples, which autotune.Tuned takes."
            )


def _trainer(export: Export) -> dict[str, Any]:
    plan = export.plan
    found: dict[str, Any] = {"accelerator": "cpu" if export.on_cpu else "auto", "devices": 1}
    if plan.autocast_dtype is not None:
        found["precision"] = PRECISION[plan.autocast_dtype]
    if plan.accumulation > 1:
        found["accumulate_grad_batches"] = plan.accumulation
    return found
