"""Wall time of a trial: what it costs to find out.

    cost = fixed + n · batch · time per sample,  n steps of warm-up, blocks and cached compute

where steps are slow; where they are fast, `fixed` covers the seconds that every phase takes at least. What the law
misses (compiling costs several eager trials) is a small Gaussian process over the options of the compute.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from autotune.search.model.encoding import Encoding, FloatArray, Rows
from autotune.search.model.step import StepModel
from autotune.search.model.surrogate import Surrogate, option_terms
from autotune.search.observation import Observation

STEPS = 25  # n: six of warm-up, a dozen blocks of one step, and the rest for cached compute and memory
MISSED_SD = 0.5  # log ratio of a trial's wall time that one option may make
LEAST_FIXED_S = 1.0
DEAR = 4.0  # times the middle cost of the trials so far: a dearer trial is not worth its time


class CostModel:
    """Learned from the trials so far, of which one at least was timed."""

    def __init__(self, encoding: Encoding, rows: Rows, seen: Sequence[Observation], time: StepModel) -> None:
        """`seen` are measured trials with a wall time, at `rows`."""
        self._encoding, self._time = encoding, time
        costs = np.array([trial.cost_s for trial in seen])
        self._fixed_s = max(LEAST_FIXED_S, float(np.median(costs - self._steps_s(rows))))
        self._limit_s = DEAR * float(np.median(costs))
        terms = option_terms(encoding, ("compute",), sd=MISSED_SD, skip=("batch_size",))
        self._missed = Surrogate(terms, rows, np.log(costs / self._law(rows)), interactions=False)

    def predict(self, rows: Rows) -> FloatArray:
        """Return the expected wall time of a trial of each row, seconds."""
        return np.asarray(self._law(rows) * np.exp(self._missed.predict(rows)[0]))

    def affordable(self, rows: Rows) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Return which rows are not dear by the law, which knows of slow steps."""
        return np.asarray(self._law(rows) <= self._limit_s)

    def _law(self, rows: Rows) -> FloatArray:
        return self._fixed_s + self._steps_s(rows)

    def _steps_s(self, rows: Rows) -> FloatArray:
        batch = self._encoding.numbers("batch_size", rows, 1.0)
        return np.asarray(STEPS * batch * np.exp(self._time.log_time(rows)[0]))
