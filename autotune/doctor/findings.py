"""What the doctor says: ceilings and findings. Plain data, free of torch, since they cross from its child process."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any


class Gives(enum.StrEnum):
    """What following a finding gives."""

    SPEED = "speed"
    MEMORY = "memory"
    RESULT = "result"
    """the training may not do what it should"""
    ACCELERATOR = "accelerator"
    """speed on an accelerator; nothing on the device that was looked at"""


class Basis(enum.StrEnum):
    """Where the figure of a gain comes from."""

    MEASURED = "measured"
    """the step was run with the fix and without, in turn"""
    BOUND = "bound"
    """the most that the fix can give, from a measured share"""
    NONE = "none"


class Sureness(enum.StrEnum):
    """How sure it is that the fault is there."""

    CERTAIN = "certain"
    """it was seen to happen"""
    LIKELY = "likely"
    POSSIBLE = "possible"


@dataclass(frozen=True, kw_only=True)
class Gain:
    """What following a finding gives."""

    share: float = 0.0
    """of the time of a step, 0 to 1"""
    basis: Basis = Basis.NONE
    half_width: float | None = None
    """of the share's 95 % interval, where it was measured"""
    saved_bytes: int = 0

    @property
    def speedup(self) -> float:
        """Samples a second with the fix over those without."""
        return 1.0 / (1.0 - min(self.share, 0.99))


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that the user can do."""

    check: str
    """name of the check's module"""
    gives: Gives
    seen: str
    """what was seen, with its figure"""
    where: tuple[str, ...]
    """places: "train.py:31" or "blocks.0.norm (train.py:62)"; the first is the most important"""
    remedy: tuple[str, ...]
    """what to do: a sentence or code, two lines at most"""
    gain: Gain = field(default_factory=Gain)
    sure: Sureness = Sureness.CERTAIN
    why: str = ""
    """what the gain's figure rests on, or what happens if nothing is done"""


@dataclass(frozen=True, kw_only=True)
class LoaderRate:
    """The loader by itself."""

    workers: int
    samples_per_s: float


@dataclass(frozen=True, kw_only=True)
class Ceilings:
    """Where the time of a step goes, and how fast it could be. Times are seconds a step."""

    step_s: float
    uncertainty: float
    """relative half-width within the run"""
    samples_per_step: float
    workers: int = 0
    """of the loader, today"""
    wait_s: float
    compute_s: float
    """on batches that are there already, with the loader idle"""
    loader_s: float
    """a batch, the loader alone with today's workers"""
    transfer_s: float | None = None
    """copying a batch to the accelerator; None: there is none"""
    launch_s: float = 0.0
    """the host's share of starting the operations of a step, as many as there are times what a tiny one takes"""
    operations: int = 0
    """a step"""
    device_busy_s: float | None = None
    """the accelerator computing; None: there is none"""
    loaders: tuple[LoaderRate, ...] = ()
    bound_by: str = "compute"
    """"input", "compute", "launches" or "transfer" """
    flops_per_sample: float | None = None
    """forward and backward, of matrix products, convolutions and attention; None: none counted"""
    matmul_flops: float | None = None
    """operations a second that a large matrix product reaches here in the same precision"""
    precision: str = "fp32"
    kinds: Mapping[str, float] = field(default_factory=dict)
    """share of the compute by kind of operation"""

    @property
    def contention_s(self) -> float:
        """What is neither waiting nor undisturbed compute: work slowed by the loader's processes, or by others."""
        return max(0.0, self.step_s - self.wait_s - self.compute_s)

    @property
    def samples_per_s(self) -> float:
        return self.samples_per_step / self.step_s

    @property
    def free_loading_samples_per_s(self) -> float:
        """If loading cost nothing."""
        return self.samples_per_step / self.compute_s

    @property
    def free_compute_samples_per_s(self) -> float:
        """If the model's compute cost nothing: the loader's own pace with today's workers."""
        return self.samples_per_step / self.loader_s if self.loader_s else float("inf")

    @property
    def machine_share(self) -> float | None:
        """Share of this machine's matrix product rate that the compute reaches; None: not known."""
        if not self.flops_per_sample or not self.matmul_flops:
            return None
        return self.flops_per_sample * self.samples_per_step / self.compute_s / self.matmul_flops


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """All that the doctor found."""

    config: Mapping[str, object]
    device: str
    device_name: str
    cores: float
    ceilings: Ceilings
    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = ()
    """checks that could not be made, and why; signs that the machine was disturbed"""
    seconds: float = 0.0


def counted(count: int, one: str, many: str) -> str:
    """Return "1 tensor is" or "3 tensors are"."""
    return f"{count} {one if count == 1 else many}"


def to_document(found: Diagnosis) -> dict[str, Any]:
    """Return the diagnosis as plain data, what follows from its figures included; None where a figure has no end."""
    document, ceilings = asdict(found), found.ceilings
    document["ceilings"] |= {
        "contention_s": ceilings.contention_s,
        "samples_per_s": ceilings.samples_per_s,
        "free_loading_samples_per_s": ceilings.free_loading_samples_per_s,
        "free_compute_samples_per_s": ceilings.free_compute_samples_per_s if ceilings.loader_s else None,
        "machine_share": ceilings.machine_share,
    }
    return document


SECTIONS = (Gives.SPEED, Gives.MEMORY, Gives.RESULT, Gives.ACCELERATOR)


def in_order(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return findings by what they would gain: time first, then memory, then what gives neither here."""
    return tuple(sorted(findings, key=lambda f: (SECTIONS.index(f.gives), -f.gain.share, -f.gain.saved_bytes)))
