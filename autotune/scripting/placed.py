"""Where the script's parameters lie: on another device than the one measured, neither time nor memory would be seen."""

from __future__ import annotations

import os
from collections.abc import Iterable

import torch
from torch import Tensor

from autotune.errors import ScriptError


def why_elsewhere(script: str, parameters: Iterable[Tensor], device: torch.device) -> ScriptError | None:
    """Return why a script that trains these parameters cannot be measured on `device`; None where it can.

    A script may use several devices, as where the optimizer's state is kept in host memory: one of them is enough.
    """
    found = {_numbered(item.device): str(item.device) for item in parameters}
    if not found or _numbered(device) in found:
        return None
    places = sorted(found.values())
    return ScriptError(
        f"the parameters that {script} trains lie on {' and '.join(places)}, and what would be measured is {device}",
        hint=f"Name the device that it trains on: --device {places[0]}. Or let it train on {device}.",
    )


def visible_cards() -> str | None:
    """Return the cards that the environment lets this process see, as CUDA names them; None: all."""
    return os.environ.get("CUDA_VISIBLE_DEVICES")


def why_another_card(script: str, before: str | None, now: str | None) -> ScriptError | None:
    """Return why a script that lets itself see other cards than `before` would be measured on the wrong one, or None.

    It comes too late: the device is in use by then, and would be another one than in a run without us.
    """
    if now == before or now is None or _first(now) == _first(before or "0"):
        return None
    return ScriptError(
        f"{script} sets CUDA_VISIBLE_DEVICES={now} itself, when the device is in use already: it would be measured on "
        "another card than the one that it trains on",
        hint=f"Set it outside: CUDA_VISIBLE_DEVICES={now} autotune search {script}",
    )


def _first(cards: str) -> str:
    return cards.partition(",")[0].strip()


def _numbered(device: torch.device) -> tuple[str, int]:
    """Return type and number of a device; "cuda" is the first one."""
    return device.type, device.index or 0
