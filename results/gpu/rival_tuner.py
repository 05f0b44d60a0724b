"""Lets pytorch-autotune tune one workload in this process: `rival_tuner.py SECONDS ANSWER.json`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
from workloads import LEARNING_RATE, chosen, loss_function

PRECISIONS = {"fp32_default": "fp32", "tf32": "fp32", "amp_bf16": "bf16", "amp_fp16": "fp16"}
MODES = ("off", "default", "reduce-overhead")
"""of torch.compile that are an option of ours; another one is applied from outside"""


def main() -> None:
    import pytorch_autotune

    seconds, answer = float(sys.argv[1]), Path(sys.argv[2])
    case = chosen()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    found = pytorch_autotune.autotune(
        case.model(),
        case.data(case.batch_size, device),
        loss_fn=loss_function,
        optimizer="adamw",  # by name: only then it may choose the fused one
        lr=LEARNING_RATE,
        budget=int(seconds),
        device=device,
        cache=False,
    )
    answer.write_text(json.dumps({**express(found.config), "claim": found.report.summary(), "seconds": seconds}))


def express(chosen_config: Any) -> dict[str, Any]:
    """Return its answer as options of ours, and what they cannot say as a mode for torch.compile."""
    options: dict[str, Any] = {"precision": PRECISIONS[chosen_config.precision]}
    options["channels_last"] = chosen_config.channels_last
    if chosen_config.precision != "fp32_default":  # it sets both switches with every other precision
        options |= {"matmul_precision": "high", "cudnn_benchmark": True}
    if chosen_config.fused_opt:
        options["optimizer_impl"] = "fused"
    inside = chosen_config.compile in MODES
    if inside:
        options["compile_mode"] = chosen_config.compile
    return {"options": options, "compile_mode": "" if inside else chosen_config.compile, "label": chosen_config.label}


if __name__ == "__main__":
    main()
