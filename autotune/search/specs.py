"""What trial processes are told, with what earlier trials taught."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from autotune.config import Config
from autotune.options.base import Value
from autotune.records import TrialRecord, TrialSpec
from autotune.search.setup import Prepared, Wishes
from autotune.trials.folder import RunFolder

START_MARGIN = 10.0  # times the expected start that a trial is given for it: large models compile for minutes


class Specs:
    """Makes the specs of one search or verification."""

    def __init__(self, prepared: Prepared, wishes: Wishes, folder: RunFolder) -> None:
        self.prepared, self.wishes, self.folder = prepared, wishes, folder
        self._gradient_names: tuple[str, ...] | None = None
        self._outside_torch_bytes = 0
        self._compile_s: dict[tuple[Value, ...], float] = {}
        """longest compilation seen, by the values that decide what is compiled"""

    def make(self, number: int, config: Config, **others: Any) -> TrialSpec:
        """Return the spec of one trial; `others` are fields of `TrialSpec`."""
        facts, limits = self.prepared.facts, self.prepared.limits
        if limits.device_bytes is not None:
            # the cap is on torch's allocator; what lies outside it takes its share of the limit
            limits = replace(limits, device_bytes=max(0, limits.device_bytes - self._outside_torch_bytes))
        limits = replace(limits, timeout_s=limits.timeout_s + START_MARGIN * self._start_s(config))
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
            planned_samples=self.prepared.planned_samples,
            known_compile_s=self._compile_s.get(self._compiled_as(config), 0.0),
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
            if record.measurement.compilation is not None:
                key = self._compiled_as(config)
                self._compile_s[key] = max(self._compile_s.get(key, 0.0), record.measurement.compilation.seconds)

    def _start_s(self, config: Config) -> float:
        """Return the seconds that the config's options are expected to add to the start."""
        space = self.prepared.space
        return sum(option.start_s(config.value(option.name), space.context) for option in space.options())

    def _compiled_as(self, config: Config) -> tuple[Value, ...]:
        """Return the values that decide what is compiled: those of the compute, not of the loader."""
        options = self.prepared.space.options()
        return tuple(config.value(option.name) for option in options if "compute" in option.affects)
