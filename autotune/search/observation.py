"""What the search learns from one trial: the part of its record that is stored with the study's trial."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from autotune.config import Config
from autotune.documents import LARGEST
from autotune.records import REPEAT, Outcome, TrialRecord, start_share_s

ATTRIBUTE = "observation"
"""user attribute of an Optuna trial that holds `Observation.to_dict()`"""
INTERRUPTED = "interrupted"
"""what the attribute `outcome` of a trial says that an interruption ended: the search asks for it again"""


@dataclass(frozen=True, kw_only=True)
class Observation:
    """One trial as samplers see it. Times are seconds a sample, memory is bytes."""

    config: Config
    """canonical"""
    outcome: Outcome
    sample_s: float | None = None
    """the objective; None where nothing was measured"""
    compute_s: float | None = None
    """undisturbed compute, without the loader's processes"""
    loader_s: float | None = None
    """the loader alone"""
    contention_s: float | None = None
    """compute slowed by the loader's processes"""
    epoch_s: float = 0.0
    """share of the epoch's restart"""
    start_s: float = 0.0
    """seconds until the first step is done, building and compiling included"""
    planned_samples: int | None = None
    """samples over which `sample_s` spreads the start; None: it does not"""
    uncertainty: float = 0.03
    """relative half-width within the run"""
    peak_bytes: int | None = None
    """peak that decides whether the config fits; None where it is not known"""
    small_batch: int | None = None
    """batch size of a second, smaller run in the same trial"""
    small_peak_bytes: int | None = None
    """and its peak"""
    limit_bytes: int | None = None
    """the memory it was allowed"""
    beside: str = ""
    """the memory that it ran out of, shared or host, where that is not the one that `limit_bytes` is of"""
    cost_s: float = 0.0
    """wall time of the trial"""
    repeat: bool = False
    """whether it counts in the place of the disturbed run of the same config before it"""

    @property
    def steady_sample_s(self) -> float | None:
        """The objective without the start's share."""
        return None if self.sample_s is None else self.sample_s - start_share_s(self.start_s, self.planned_samples)

    @property
    def fits(self) -> bool | None:
        """Whether it stayed in the memory that decides; None where it failed for another reason."""
        if self.outcome is Outcome.OUT_OF_MEMORY:
            return None if self.beside else False
        if self.peak_bytes is None or self.limit_bytes is None:
            return None
        return self.peak_bytes <= self.limit_bytes

    @property
    def replaces(self) -> bool:
        """Whether this repeat says more than the disturbed run: not where a stray failure ended it."""
        return self.repeat and self.outcome.settles

    def check(self) -> None:
        """Look for figures that no trial yields, which another program or a damaged disk left in a study.

        Raises:
            ValueError: there is one; says which.
        """
        for item in dataclasses.fields(self):
            value = getattr(self, item.name)
            if value is None or item.name in ("config", "outcome", "repeat", "beside"):
                continue
            most = math.inf if item.name == "uncertainty" else LARGEST
            if type(value) not in (int, float) or not 0 <= value <= most or (item.name == "sample_s" and value == 0):
                raise ValueError(f"the observation's {item.name} is not a number that can be")

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for a study's storage."""
        fields = {item.name: getattr(self, item.name) for item in dataclasses.fields(self)}
        return {**fields, "config": dict(self.config), "outcome": self.outcome.value}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Observation:
        """Read what `to_dict` wrote."""
        return cls(**{**data, "config": Config(**data["config"]), "outcome": Outcome(data["outcome"])})


def observe(record: TrialRecord, config: Config, limit_bytes: int, accelerator: bool) -> Observation:
    """Return what a record teaches about `config`.

    Args:
        limit_bytes: what the trial was allowed on the device that decides.
        accelerator: whether that is an accelerator, rather than the host.
    """
    found = record.measurement
    peak_bytes = (found.lifetime.needed(accelerator) or None) if found else None
    if found is None or not record.outcome.measured:
        return Observation(
            config=config,
            # a record that says it was measured and holds no measurement is damaged
            outcome=Outcome.ERROR if record.outcome.measured else record.outcome,
            peak_bytes=peak_bytes,
            limit_bytes=limit_bytes,
            beside=_beside(record, accelerator),
            cost_s=record.wall_s,
            repeat=record.kind == REPEAT,
        )
    per_step = found.samples_per_step
    share = found.epoch_overhead_s / found.samples_per_epoch if found.samples_per_epoch else 0.0
    return Observation(
        config=config,
        outcome=record.outcome,
        sample_s=found.sample_s,
        compute_s=None if found.compute_s is None else found.compute_s / per_step,
        loader_s=None if found.loader_s is None else found.loader_s / per_step,
        contention_s=None if found.contention_s is None else max(0.0, found.contention_s) / per_step,
        epoch_s=share,
        start_s=found.start_s,
        planned_samples=found.planned_samples,
        uncertainty=found.uncertainty,
        peak_bytes=peak_bytes,
        small_batch=found.small_batch,
        small_peak_bytes=found.small_peak.needed(accelerator) if found.small_peak else None,
        limit_bytes=limit_bytes,
        cost_s=record.wall_s,
        repeat=record.kind == REPEAT,
    )


def _beside(record: TrialRecord, accelerator: bool) -> str:
    """Return which memory a trial ran out of where that does not decide whether a config fits; else nothing."""
    if record.outcome is not Outcome.OUT_OF_MEMORY or record.failure is None:
        return ""
    others = ("shared", "host") if accelerator else ("shared",)
    return next((memory for memory in others if f"{memory} memory" in record.failure.reason), "")


def counting(observations: Iterable[Observation]) -> list[Observation]:
    """Return the observations with each repeat in the place of the run that it repeats."""
    found: list[Observation] = []
    last: dict[Config, int] = {}
    for seen in observations:
        if seen.repeat and seen.config in last:
            if seen.replaces:
                found[last[seen.config]] = seen
        else:
            last[seen.config] = len(found)
            found.append(seen)
    return found
