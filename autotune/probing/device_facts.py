"""What a probe finds out about the device, whatever runs on it."""

from __future__ import annotations

from typing import Any

import torch

from autotune.device import Device


def device_facts(device: Device, free_bytes: int | None) -> dict[str, Any]:
    """Return the fields of `Facts` that are of the device and of torch's switches for it.

    `free_bytes` is what was free of it before the probe built anything there.
    """
    return {
        "device": device.id,
        "device_name": device.name,
        "device_memory_bytes": device.total_bytes(),
        "device_free_bytes": free_bytes,
        "default_threads": torch.get_num_threads(),
        "native_bf16": device.native_bf16(),
        "native_fp16": device.native_fp16(),
        "capability": device.capability(),
        "matmul_precision": _matmul_precision(),
        "deterministic": torch.backends.cudnn.deterministic or torch.are_deterministic_algorithms_enabled(),
    }


def _matmul_precision() -> str:
    try:
        return torch.get_float32_matmul_precision()
    except RuntimeError:  # torch refuses the question once fp32_precision was set for one backend or operator
        return "a value of its own (fp32_precision)"
