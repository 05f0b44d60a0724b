"""transformers: TrainingArguments, and what Trainer needs beside them."""

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
    make_optimizer,
    prepare_dataset,
    prepare_model,
)

PRECISION = {"bfloat16": "bf16", "float16": "fp16"}
LOADER = {
    "batch_size": "per_device_train_batch_size",
    "num_workers": "dataloader_num_workers",
    "prefetch_factor": "dataloader_prefetch_factor",
    "persistent_workers": "dataloader_persistent_workers",
    "pin_memory": "dataloader_pin_memory",
    "drop_last": "dataloader_drop_last",
    "multiprocessing_context": "dataloader_multiprocessing_context",
}
"""arguments of the DataLoader and their names among the TrainingArguments"""
USAGE = """
Needs transformers and accelerate. In your own code:

    trainer = Trainer(
        model=prepare_model(model),
        args=TrainingArguments(output_dir, **TRAINING_ARGUMENTS),
        train_dataset=dataset,
    )
"""
LAID_OUT = '''
class LaidOut:
    """A data collator that lays out what another one collates; the copy to the device keeps that."""

    def __init__(self, collate):
        self.collate = collate

    def __call__(self, samples):
        return lay_out(self.collate(samples))
'''


class Transformers(Target):
    name = "transformers"
    help = "Hugging Face's TrainingArguments, and what its Trainer needs beside them"
    suffix = ".py"
    fields = PIECES | {"non_blocking", "accumulation", "autocast_dtype", "scale_gradients"}
    loader = frozenset(LOADER)
    reasons = {
        "device_prefetch": "Trainer copies each batch on the stream of the step",
        "worker_affinity": "Trainer gives its DataLoader a worker_init_fn of its own",
    }

    def write(self, export: Export) -> str:
        whole, export = export, self.expressed(export)
        laid_out, optimizer, dataset = lay_out(export), export.plan.optimizer, prepare_dataset(export)
        extra = ""
        if laid_out:
            extra += "        data_collator=LaidOut(default_data_collator),  # around yours\n"
        if optimizer:
            extra += "        optimizers=(make_optimizer(optimizer_class, model.parameters(), lr=...), None),\n"
        usage = USAGE.replace("    )\n", f"{extra}    )\n")
        if dataset:
            usage = usage.replace("=dataset", "=prepare_dataset(dataset)")
        return assemble(
            export,
            head(whole, self, usage),
            ["import torch"],
            [
                f"TRAINING_ARGUMENTS = dict(\n{arguments(_training_arguments(export), '    ')})\n"
                '"""TrainingArguments."""',
                prepare_model(export, device=False, doc="Return the model, changed in place."),
                dataset,
                make_optimizer(export) if optimizer else "",
                laid_out,
                LAID_OUT if laid_out else "",
            ],
        )

    def caveats(self, export: Export) -> Iterator[str]:
        if not export.plan.optimizer:
            yield (
                "Trainer's own optimizer is the fused AdamW, unless you give it another; the settings were measured "
                "with yours."
            )
        if export.on_cpu:
            yield "use_cpu is set since the settings were measured on a CPU, where Trainer refuses bf16 without it."
        yield "Trainer clips gradients to a norm of 1.0 unless max_grad_norm says otherwise."
        if export.plan.loader.get("drop_last"):
            yield (
                "dataloader_drop_last leaves out a last batch that is not full in evaluations and predictions, too: "
                "make those with a Trainer without it."
            )
        if export.plan.accumulation > 1:
            yield (
                "Trainer weighs the batches of an update by its own rules; autotune.Tuned takes the mean over the "
                "samples of an update, the last one of an epoch included."
            )


def _training_arguments(export: Export) -> dict[str, Any]:
    plan = export.plan
    loader = {"pin_memory": False, **plan.loader_arguments()}  # which is PyTorch's default, and not Trainer's
    found = {LOADER[name]: value for name, value in loader.items() if name in LOADER}
    if plan.autocast_dtype is not None:
        found[PRECISION[plan.autocast_dtype]] = True
    if plan.accumulation > 1:
        found["gradient_accumulation_steps"] = plan.accumulation
    if plan.non_blocking:
        found["accelerator_config"] = {"non_blocking": True}
    if export.on_cpu:
        found["use_cpu"] = True
    return found
