"""Everything believed about a space after some trials: time, memory, failures and the cost of a trial,
together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from autotune.config import Config
from autotune.options.accumulation import samples_per_update
from autotune.options.space import Space
from autotune.records import Outcome
from autotune.search.model.candidates import distinct
from autotune.search.model.cost import CostModel
from autotune.search.model.encoding import Encoding, FloatArray, Rows
from autotune.search.model.failures import FailureModel
from autotune.search.model.memory import MemoryModel, Peak
from autotune.search.model.start import StartModel
from autotune.search.model.step import StepModel
from autotune.search.observation import Observation

LIKELY_FITS = 0.9  # configs less likely to fit are no longer tried; by results/search/oracle: hardly one ran over

Mask = np.ndarray[tuple[int], np.dtype[np.bool_]]


@dataclass(frozen=True, kw_only=True)
class Outlook:
    """What is expected of some rows."""

    times: FloatArray
    """seconds a sample, posterior samples by rows"""
    peaks: FloatArray
    """bytes; 0 where nothing is known about memory"""
    fits: FloatArray
    """probability that the peak stays within the limit"""
    runs: FloatArray
    """probability that nothing else fails"""
    costs: FloatArray
    """seconds of wall time that a trial takes"""


class Belief:
    """The posterior. Needs one measured observation; `running` are configs in other workers' hands."""

    def __init__(
        self,
        space: Space,
        seen: Sequence[Observation],
        running: Sequence[Config] = (),
        beside: Sequence[Config] = (),
    ) -> None:
        """Learn from what was seen. `beside` holds values between the choices that will be asked about."""
        measured = [trial for trial in seen if trial.outcome.measured and trial.sample_s]
        assert measured
        peaks, peaked = _peaks(space, seen)
        self.encoding = encoding = Encoding(space, [*(trial.config for trial in seen), *peaked, *running, *beside])
        self.running = distinct(encoding, encoding.rows(running))
        rows = encoding.rows([trial.config for trial in measured])
        self.time = StepModel(encoding, rows, measured, self.running)
        self.start = StartModel(encoding, rows, measured)
        self.limit_bytes = next((trial.limit_bytes for trial in reversed(seen) if trial.limit_bytes), None)
        self.memory = MemoryModel(encoding, encoding.rows(peaked), peaks) if peaks else None
        failed = [trial for trial in seen if not trial.outcome.measured and trial.fits is not False]
        self._failures = FailureModel(
            encoding,
            rows,
            encoding.rows([trial.config for trial in failed]),
            np.array([trial.outcome is Outcome.UNSUPPORTED for trial in failed], dtype=bool),
        )
        self._cost = self._learn_cost(seen)
        self.tried = distinct(encoding, encoding.rows([trial.config for trial in seen]))
        """every config with an outcome, once"""
        self.measured = distinct(encoding, rows)
        """every config with a time, once"""
        self.measured_times = np.exp(self.time.log_time(self.measured)) + self.start.share_s(self.measured)
        """posterior mean seconds a sample of the measured configs"""
        self.measured_peaks, self.feasible = self._measured_memory(space, measured)
        """largest bytes seen of each, and whether it may be an answer: in its memory, of the samples asked for"""

    def outlook(self, rows: Rows, normals: FloatArray) -> Outlook:
        """Return what is expected of `rows`, one posterior sample for each line of three `normals`."""
        limited = self.memory is not None and self.limit_bytes is not None
        return Outlook(
            times=self.time.samples(rows, normals) + self.start.share_s(rows),
            peaks=np.exp(self.memory.predict(rows)[0]) if self.memory else np.zeros(len(rows)),
            fits=self.fits(rows) if limited else np.ones(len(rows)),
            runs=self._failures.runs(rows),
            costs=self._cost.predict(rows) if self._cost else np.ones(len(rows)),
        )

    def fits(self, rows: Rows) -> FloatArray:
        """Return the probability that each row stays within the memory limit; 1 where none is known."""
        if self.memory is None or self.limit_bytes is None:
            return np.ones(len(rows))
        return self.memory.fits(rows, self.limit_bytes)

    def affordable(self, rows: Rows) -> Mask:
        """Return which rows have a trial whose time is worth it."""
        return self._cost.affordable(rows) if self._cost else np.ones(len(rows), dtype=bool)

    def _learn_cost(self, seen: Sequence[Observation]) -> CostModel | None:
        timed = [trial for trial in seen if trial.cost_s > 0 and trial.outcome.measured]
        if not timed:
            return None
        rows = self.encoding.rows([trial.config for trial in timed])
        return CostModel(self.encoding, rows, timed, self.time, self.start)

    def _measured_memory(self, space: Space, measured: Sequence[Observation]) -> tuple[FloatArray, Mask]:
        peaks, feasible = np.zeros(len(self.measured)), np.ones(len(self.measured), dtype=bool)
        place = {key: index for index, key in enumerate(self.encoding.keys(self.measured))}
        keys = self.encoding.keys(self.encoding.rows([trial.config for trial in measured]))
        for key, trial in zip(keys, measured, strict=True):
            peaks[place[key]] = max(peaks[place[key]], trial.peak_bytes or 0)
            feasible[place[key]] &= trial.fits is not False
        if (whole := space.context.effective_batch) is not None:  # the baseline may make others
            feasible &= [samples_per_update(self.encoding.config(row)) == whole for row in self.measured]
        return peaks, feasible


def _peaks(space: Space, seen: Sequence[Observation]) -> tuple[list[Peak], list[Config]]:
    """Return what the trials say of memory, and the config that each peak belongs to."""
    peaks: list[Peak] = []
    configs: list[Config] = []

    def add(config: Config, batch: float, peak_bytes: int, *, censored: bool = False) -> None:
        peaks.append(Peak(row=len(configs), batch=batch, peak_bytes=peak_bytes, censored=censored))
        configs.append(config)

    for trial in seen:
        batch = float(trial.config.get("batch_size", 1))
        if trial.outcome is Outcome.OUT_OF_MEMORY and trial.fits is False and trial.limit_bytes:
            add(trial.config, batch, trial.limit_bytes, censored=True)
        elif trial.peak_bytes and trial.outcome.measured:
            add(trial.config, batch, trial.peak_bytes)
        if trial.small_peak_bytes and trial.small_batch:
            # it is taken when the workers have ended
            bare = trial.config.replace(num_workers=0) if trial.config.get("num_workers") else trial.config
            add(space.canonical(bare), trial.small_batch, trial.small_peak_bytes)
    return peaks, configs
