"""An oracle as a machine that answers: the measured table of one example, and a runner that draws trials from it."""

from __future__ import annotations

import json
import math
import random
from dataclasses import dataclass, field, replace
from pathlib import Path

from draw import Chosen

from autotune.config import Config
from autotune.documents import from_plain
from autotune.facts import Facts
from autotune.machine import Machine
from autotune.options.space import Space
from autotune.records import Failure, Limits, Measurement, Outcome, Peaks, Source, TrialRecord, TrialSpec
from autotune.search.observation import Observation
from autotune.search.setup import Prepared
from autotune.trials.runner import Report, silent

SUPPOSED_SD = 0.03  # noise of a single run that is supposed as long as nothing was measured twice


@dataclass(frozen=True)
class TableSpace(Space):
    """A space in which only the configs of a table can run."""

    allowed: frozenset[Config] = field(default_factory=frozenset)

    def legal(self, config: Config) -> str | None:
        return super().legal(config) or (None if config in self.allowed else "not in the table")


class Table:
    """What was measured of one example."""

    def __init__(self, folder: Path, example: str) -> None:
        self.chosen = Chosen.load(folder / f"{example}.configs.json")
        self.runs: dict[Config, list[Observation]] = {}
        lines = [json.loads(line) for line in (folder / f"{example}.jsonl").read_text().splitlines()]
        for line in lines:
            seen = Observation.from_dict(line["observation"])
            self.runs.setdefault(seen.config, []).append(seen)
        self.trials = len(lines)
        self.seconds = sum(run.cost_s for runs in self.runs.values() for run in runs)
        self.time = {config: mean for config, runs in self.runs.items() if (mean := _mean_time(runs)) is not None}
        """seconds a sample, geometric mean of the replicates; configs of which each run was measured"""
        self.noise = _replicate_sd([runs for config, runs in self.runs.items() if config in self.time])
        """standard deviation of ln(seconds a sample) from one run of a config to the next"""
        whole = self.chosen.space
        self.space = TableSpace(whole.context, whole.choices, whole.reasons, whole.baseline, frozenset(self.runs))

    def peak(self, config: Config) -> int:
        """Return the largest peak of a config's runs, bytes; 0 where none was measured."""
        return max((run.peak_bytes or 0 for run in self.runs[config]), default=0)

    def best(self, limit_bytes: float = math.inf) -> float:
        """Return the smallest time of the configs that fit, seconds a sample."""
        return min(time_s for config, time_s in self.time.items() if self.peak(config) <= limit_bytes)

    def tolerance(self, least: float) -> float:
        """Return how far from the best a config may be and not be told from it: `least`, or the table's own noise."""
        replicates = sum(len(self.runs[config]) for config in self.time) / max(1, len(self.time))
        return max(least, self.noise / math.sqrt(replicates))

    def prepared(self, limit_bytes: int | None) -> Prepared:
        """Return the workload as a search takes it; None keeps the limit that the table was measured under."""
        facts = from_plain(Facts, self.chosen.facts)
        limits = self.chosen.limits
        if limit_bytes is not None:
            on_device = facts.device != "cpu"
            limits = replace(limits, **{"device_bytes" if on_device else "host_bytes": limit_bytes})
        return Prepared(
            source=Source(),
            facts=facts,
            machine=from_plain(Machine, self.chosen.machine),
            space=self.space,
            limits=limits,
            accelerator=facts.device != "cpu",
        )


class TableRunner:
    """Answers every trial with one of the config's own runs, moved to its mean time plus the table's noise."""

    def __init__(self, table: Table, limits: Limits, seed: int) -> None:
        self._table, self._rng = table, random.Random(seed)
        self._limit_bytes = limits.device_bytes or limits.host_bytes
        self._small = {
            (config, run.small_batch): run
            for config, runs in table.runs.items()
            for run in runs
            if run.small_peak_bytes is not None
        }

    def run(self, spec: TrialSpec, log: Path, report: Report = silent) -> TrialRecord:
        config = Config(**spec.config)
        seen = self._rng.choice(self._table.runs[config])
        record = TrialRecord(
            number=spec.number, kind=spec.kind, config=spec.config, outcome=seen.outcome, wall_s=seen.cost_s
        )
        if (seen.peak_bytes or 0) > self._limit_bytes:
            return replace(record, outcome=Outcome.OUT_OF_MEMORY, failure=Failure(reason="over the limit"))
        if seen.sample_s is None or config not in self._table.time:
            return replace(record, failure=Failure(reason=seen.outcome.value))
        factor = self.time(config) / seen.sample_s
        return replace(record, measurement=self._measurement(spec, config, seen, factor), gradient_names=())

    def time(self, config: Config, runs: int = 1) -> float:
        """Return the seconds a sample that the mean of some fresh runs shows."""
        error = self._rng.gauss(0, self._table.noise / math.sqrt(runs))
        return self._table.time[config] * math.exp(error)

    def close(self) -> None:
        """Nothing is held."""

    def _measurement(self, spec: TrialSpec, config: Config, seen: Observation, factor: float) -> Measurement:
        batch = int(config.value("batch_size"))
        step = batch * factor
        step_s = ((seen.sample_s or 0.0) - seen.epoch_s) * step
        compute_s = None if seen.compute_s is None else seen.compute_s * step
        contention_s = (seen.contention_s or 0.0) * step
        small = self._small.get((config, spec.small_batch)) if spec.small_batch else None
        peaks = _peaks(seen.peak_bytes or 0)
        return Measurement(
            sample_s=(seen.sample_s or 0.0) * factor,
            step_s=step_s,
            uncertainty=seen.uncertainty,
            samples_per_step=float(batch),
            wait_s=0.0 if compute_s is None else step_s - compute_s - contention_s,
            compute_s=compute_s,
            loader_s=None if seen.loader_s is None else seen.loader_s * step,
            epoch_overhead_s=seen.epoch_s * factor,  # of one sample, as if an epoch were one
            epoch_overhead_estimated=False,
            steps_per_epoch=None,
            samples_per_epoch=1,
            lifetime=peaks,
            steady=peaks,
            blocks=(),
            kept_from=0,
            autocorrelation=0.0,
            mean_step_s=step_s,
            p95_step_s=step_s,
            flags=(),
            losses=(),
            small_batch=small.small_batch if small else None,
            small_peak=_peaks(small.small_peak_bytes or 0) if small else None,
            updates=1,
        )


def _peaks(needed: int) -> Peaks:
    """Return peaks of which `needed` decides, on a host and on an accelerator."""
    return Peaks(host=needed, reserved=needed, allocated=needed)


def _mean_time(runs: list[Observation]) -> float | None:
    times = [run.sample_s for run in runs]
    if any(time_s is None for time_s in times):
        return None
    return math.exp(sum(math.log(time_s) for time_s in times if time_s) / len(times))


def _replicate_sd(groups: list[list[Observation]]) -> float:
    """Return the pooled standard deviation of ln(time) within the groups."""
    total, freedom = 0.0, 0
    for runs in groups:
        logs = [math.log(run.sample_s) for run in runs if run.sample_s]
        mean = sum(logs) / len(logs)
        total += sum((value - mean) ** 2 for value in logs)
        freedom += len(logs) - 1
    return math.sqrt(total / freedom) if freedom else SUPPOSED_SD
