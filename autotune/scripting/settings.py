"""What the script sets itself: respected, so that the option in question does not apply."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from autotune.scripting.changes import Changes
from autotune.scripting.losses import in_backward_pass
from autotune.scripting.models import Autocast
from autotune.workload import start_up

SWITCHES = {
    # attribute of torch.backends.cudnn -> (option, how the script says it)
    "benchmark": ("cudnn_benchmark", "torch.backends.cudnn.benchmark"),
    "allow_tf32": ("matmul_precision", "torch.backends.cudnn.allow_tf32"),
}
CALLS = {
    # function of torch -> option
    "set_num_threads": "num_threads",
    "set_float32_matmul_precision": "matmul_precision",
}

IMPLEMENTATIONS = ("foreach", "fused")
"""arguments of torch's optimizers that are None unless given"""


class Settings:
    """Notes what a script sets while it runs."""

    def __init__(self) -> None:
        self.own_autocast = False
        self.own_scaler = False
        """whether it scales gradients"""
        self.made_scaler = False
        """whether it has made a gradient scaler that is switched on"""
        self.by_option: dict[str, str] = {}
        """options that the script sets itself, and how"""

    def install(self, changes: Changes) -> None:
        """Patch what has no hook: autocast, the gradient scaler, torch's switches."""
        enter, scale = torch.autocast.__enter__, torch.amp.GradScaler.scale

        def note_autocast(context: Any) -> Any:
            # what a backward pass recomputes enters the autocast of its forward again, on or off
            own = not isinstance(context, Autocast) and not in_backward_pass()
            self.own_autocast = self.own_autocast or own
            return enter(context)

        def note_scaler(scaler: Any, outputs: Any) -> Any:
            self.own_scaler = self.own_scaler or scaler.is_enabled()
            return scale(scaler, outputs)

        make = torch.amp.GradScaler.__init__

        @functools.wraps(make)
        def note_made(scaler: Any, *args: Any, **kwargs: Any) -> None:
            make(scaler, *args, **kwargs)
            self.made_scaler = self.made_scaler or scaler.is_enabled()

        changes.patch(torch.amp.GradScaler, "__init__", note_made)
        changes.patch(torch.autocast, "__enter__", note_autocast)
        changes.patch(torch.amp.GradScaler, "scale", note_scaler)
        set_threads = torch.set_num_threads

        def note_threads(number: int, variable: str) -> None:
            self.by_option["num_threads"] = f"{variable}={number}"
            set_threads(number)

        changes.patch(start_up, "set_threads", note_threads)
        for name, option in CALLS.items():
            self._note_calls(changes, name, option)
        for name, (option, said) in SWITCHES.items():
            self._note_assignments(changes, name, option, said)

    def refusals(self, models: list[nn.Module], optimizers: list[Optimizer]) -> dict[str, str]:
        """Return the options that the script has decided, by name, and how."""
        found = {option: f"the script sets {said} itself" for option, said in self.by_option.items()}
        if any(_channels_last(model) for model in models):
            found["channels_last"] = "the script lays out its model with the channels last itself"
        chosen = {name for item in optimizers for name in IMPLEMENTATIONS if item.defaults.get(name) is not None}
        if chosen:
            found["optimizer_impl"] = f"the script gives {', '.join(sorted(chosen))} to its optimizer itself"
        return found

    def _note_calls(self, changes: Changes, name: str, option: str) -> None:
        function = getattr(torch, name)

        def noted(*args: Any, **kwargs: Any) -> Any:
            self.by_option[option] = f"torch.{name}({', '.join(map(repr, args))})"
            return function(*args, **kwargs)

        changes.patch(torch, name, noted)

    def _note_assignments(self, changes: Changes, name: str, option: str, said: str) -> None:
        switch: Any = vars(type(torch.backends.cudnn)).get(name)
        if not callable(getattr(switch, "setter", None)):
            return
        setter = switch.setter

        def noted(value: Any) -> None:
            self.by_option[option] = f"{said} = {value}"
            setter(value)

        changes.patch(switch, "setter", noted)


def _channels_last(model: nn.Module) -> bool:
    """Whether a convolution's weight is laid out so already, where the two layouts differ at all."""
    weights = [item.weight for item in model.modules() if isinstance(item, nn.Conv2d)]
    return any(item.is_contiguous(memory_format=torch.channels_last) and not item.is_contiguous() for item in weights)
