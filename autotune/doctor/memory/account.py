"""What is said about the memory of a step. Plain data, free of torch, since it crosses from a child process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

PARAMETERS, GRADIENTS, OPTIMIZER = "parameters", "gradients", "optimizer state"
ACTIVATIONS, INPUTS, WORKSPACE = "activations", "inputs", "workspace"
PARTS = (PARAMETERS, OPTIMIZER, GRADIENTS, ACTIVATIONS, INPUTS, WORKSPACE)
"""kinds of tensors; activations are what the forward pass keeps for the backward pass, workspace is all the rest"""


@dataclass(frozen=True, kw_only=True)
class Moment:
    """The largest state of a stretch of the step."""

    phase: str
    """"forward", "backward" or "optimizer" """
    parts: Mapping[str, int]
    """bytes by kind"""

    @property
    def bytes(self) -> int:
        return sum(self.parts.values())


@dataclass(frozen=True, kw_only=True)
class ModuleBytes:
    """What one module keeps for the backward pass, its submodules not counted."""

    place: str
    """path in the model, and the line that made it where known"""
    kind: str
    """its class"""
    bytes: int


@dataclass(frozen=True, kw_only=True)
class Account:
    """Where the memory of a step goes. Figures are bytes."""

    config: Mapping[str, object]
    device: str
    device_name: str
    batch_size: int
    fixed_batch: str = ""
    """why another batch size changes nothing; empty: it does"""
    dataset_length: int | None = None
    accelerator: bool = False
    peak: Moment
    """when the tensors took most"""
    timeline: tuple[Moment, ...] = ()
    """one step, in equal numbers of operations"""
    modules: tuple[ModuleBytes, ...] = ()
    """activations by module, largest first"""
    needed: int
    """what decides whether it fits: the peak of what torch's allocator holds on an accelerator, else of the process"""
    allocated: int = 0
    """peak of live tensors as an accelerator's allocator counts them; 0 on the CPU"""
    snapshot: str = ""
    """file of torch's memory snapshot; empty: the device has none"""
    notes: tuple[str, ...] = ()

    @property
    def unseen(self) -> int:
        """Beside the tensors: libraries' workspace on an accelerator; on the CPU Python, libraries and workers, too."""
        return max(0, (self.allocated or self.needed) - self.peak.bytes)

    @property
    def fragmentation(self) -> int:
        """Held by an accelerator's allocator and in no tensor, cached blocks included; 0 on the CPU."""
        return max(0, self.needed - self.allocated) if self.allocated else 0


@dataclass(frozen=True, kw_only=True)
class Tried:
    """A batch size that was run."""

    batch_size: int
    predicted: int | None
    """bytes; None: it was run to learn from"""
    needed: int | None
    """bytes; None: it ran out of memory"""


@dataclass(frozen=True, kw_only=True)
class Fit:
    """Which batch size fits into a limit."""

    limit: int
    batch_size: int
    """the largest that was run and fits"""
    fixed_bytes: float
    sample_bytes: float
    """peak = fixed + sample x batch size, through the runs next to the limit"""
    tried: tuple[Tried, ...]
    bound: str = ""
    """what else bounds it: "the dataset" """


@dataclass(frozen=True, kw_only=True)
class MemoryReport:
    """All that `autotune memory` found."""

    account: Account
    fit: Fit | None = None
    notes: tuple[str, ...] = field(default_factory=tuple)
