"""Where the script's parameters lie: a step on another device than the one that is measured has neither its time nor
its memory."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from autotune.errors import ScriptError


def why_elsewhere(script: str, parameters: Iterable[Tensor], device: torch.device) -> ScriptError | None:
    """Return why a script that trains these parameters cannot be measured on `device`; None where it can.

    A script may use several devices, as where the optimizer's state is kept in host memory: one of them is enough.
    """
    found = {_in_full(item.device) for item in parameters}
    if not found or _in_full(device) in found:
        return None
    places = sorted(found)
    return ScriptError(
        f"the parameters that {script} trains lie on {' and '.join(places)}, and what would be measured is "
        f"{_in_full(device)}",
        hint=f"Name the device that it trains on: --device {places[0]}. Or let it train on {_in_full(device)}.",
    )


def _in_full(device: torch.device) -> str:
    """Return a device's name with its number, which "cuda" leaves out where it means the first one."""
    return device.type if device.type in ("cpu", "meta") else f"{device.type}:{device.index or 0}"
