"""The plan that options edit and `Tuned` carries out. It knows no option by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

NEEDS_WORKERS = ("prefetch_factor", "persistent_workers", "multiprocessing_context", "timeout")
"""arguments that a DataLoader without workers refuses"""

Switch = Callable[[], Callable[[], None]]
"""sets something process-wide; returns how to set it back"""


@dataclass
class Plan:
    """What a config comes to. All empty: plain PyTorch."""

    loader: dict[str, Any] = field(default_factory=dict)
    """arguments of the DataLoader"""
    model_transforms: list[Callable[[torch.nn.Module], torch.nn.Module]] = field(default_factory=list)
    """applied in order to the model, which already is on its device"""
    tensor_transforms: list[Callable[[torch.Tensor], torch.Tensor]] = field(default_factory=list)
    """applied to each tensor of a batch, on the device"""
    optimizer: dict[str, bool] = field(default_factory=dict)
    """arguments of each optimizer whose class takes the one that is on"""
    switches: list[Switch] = field(default_factory=list)
    expandable_segments: bool = False
    """let the device's allocator grow its segments"""
    cache_dataset: bool = False
    """keep samples in shared memory after they were first read"""
    device_prefetch: bool = False
    """copy the next batch to the device while it computes on the current one"""
    worker_affinity: bool = False
    """keep the loader's workers off the training process's cores"""
    non_blocking: bool = False
    """copy batches to the device without waiting"""
    accumulation: int = 1
    """batches whose gradients make one update"""
    autocast_dtype: str | None = None
    """the torch dtype's name; None: no autocast"""
    scale_gradients: bool = False
    compiles: bool = False
    """a compiler is at work: at least one graph must come of it"""
    checkpoint_blocks: str | None = None
    """module path of the blocks to recompute; None: found by looking"""

    def loader_arguments(self, given: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return the DataLoader's arguments: those `given` by the caller, as the plan changes them.

        What only workers can use goes where there are none: the DataLoader refuses it.
        """
        merged = {**(given or {}), **self.loader}
        if not merged.get("num_workers"):
            merged = {name: value for name, value in merged.items() if name not in NEEDS_WORKERS}
        return merged


def plan_for(values: Mapping[str, Any], checkpoint_blocks: str | None = None) -> Plan:
    """Return the plan that the values of a config come to."""
    from autotune.options import OPTIONS  # the options import Plan to edit it

    plan = Plan(checkpoint_blocks=checkpoint_blocks)
    for option in sorted(OPTIONS.values(), key=lambda option: option.order):
        if option.name in values:
            option.apply(values[option.name], plan)
    return plan


def edits_of(name: str, value: Any) -> frozenset[str]:
    """Return the fields of the plan that one value of an option edits."""
    plain, plan = Plan(), plan_for({name: value})
    return frozenset(item.name for item in fields(Plan) if getattr(plan, item.name) != getattr(plain, item.name))
