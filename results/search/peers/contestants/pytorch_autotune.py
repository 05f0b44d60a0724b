"""pytorch-autotune 2.0.0: precision, compile mode, memory format and fused optimizer, measured in stages.

It times one resident batch in this process: no loader, no batch size, no memory. On a CPU it tries tf32 (which means
nothing there) and fp16, never bf16.
"""

from __future__ import annotations

import itertools

from task import Final, Task

PRECISIONS = {"fp32_default": "fp32", "tf32": "fp32", "amp_bf16": "bf16", "amp_fp16": "fp16"}


def tune(task: Task) -> Final:
    import pytorch_autotune
    import torch
    from torch.utils.data import DataLoader

    workload = task.module().workload
    batch_size = task.baseline["batch_size"]
    loader = DataLoader(workload.dataset(), batch_size=batch_size, shuffle=True)
    inputs, target = next(itertools.islice(loader, 1))
    found = pytorch_autotune.autotune(
        workload.model(),
        (inputs, target),
        loss_fn=workload.loss,
        optimizer=workload.optimizer,
        budget=int(task.left_s()),
        device="cuda" if torch.cuda.is_available() else "cpu",
        cache=False,  # measures anew each time
    )
    chosen = found.config
    config = {"precision": PRECISIONS[chosen.precision]}
    if "channels_last" in task.choices:
        config["channels_last"] = chosen.channels_last
    winner = found.report.winner
    return Final(
        config=config,
        compile_mode="" if chosen.compile == "off" else chosen.compile,
        not_expressed=", ".join(
            word
            for word, there in (("tf32", chosen.precision == "tf32"), ("fused optimizer", chosen.fused_opt))
            if there
        ),
        own_claim=f"{winner.speedup or 1.0:.2f}x on one resident batch [{chosen.label}]",
    )
