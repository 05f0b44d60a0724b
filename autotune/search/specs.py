"""What trial processes are told, with what earlier trials taught."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from autotune.config import Config
from autotune.records import TrialRecord, TrialSpec
from autotune.search.setup import Prepared, Wishes
from autotune.trials.folder import RunFolder


class Specs:
    """Makes the specs of one search or verification."""

    def __init__(self, prepared: Prepared, wishes: Wishes, folder: RunFolder) -> None:
        self.prepared, self.wishes, self.folder = prepared, wishes, folder
        self._gradient_names: tuple[str, ...] | None = None
        self._outside_torch_bytes = 0

    def make(self, number: int, config: Config, **others: Any) -> TrialSpec:
        """Return the spec of one trial; `others` are fields of `TrialSpec`."""
        facts, limits = self.prepared.facts, self.prepared.limits
        if limits.device_bytes is not None:
            # the cap is on torch's allocator; what lies outside it takes its share of the limit
            limits = replace(limits, device_bytes=limits.device_bytes - self._outside_torch_bytes)
        return TrialSpec(
            number=number,
            config=dict(config),
            baseline=dict(self.prepared.space.baseline),
            source=self.prepared.source,
            device=facts.device,
            limits=limits,
            record_path=str(self.folder.record(number).resolve()),
            gradient_names=self._gradient_names,
            dataset_length=facts.dataset_length,
            fixed_batch=facts.fixed_batch is not None,
            found=facts.script,
            seed=self.wishes.seed,
            target=self.wishes.target,
            **others,
        )

    def learn(self, record: TrialRecord, config: Config) -> None:
        """Take from a record what later trials must know."""
        if config == self.prepared.space.baseline and record.gradient_names:
            self._gradient_names = record.gradient_names
        if record.measurement is not None:
            outside = record.measurement.lifetime.outside_torch
            self._outside_torch_bytes = max(self._outside_torch_bytes, outside)
