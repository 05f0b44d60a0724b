"""Wall time of a trial: what it costs to find out.

    cost = fixed + start + n · batch · time per sample,  n steps of warm-up, blocks and cached compute

where steps are slow; where they are fast, `fixed` covers the seconds that every phase takes at least. `start` is what
options add to it: compiling costs several eager trials. What the law misses (a compile cache that knows the graph) is
a small Gaussian process over the options of the compute.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from autotune.search.model.encoding import Encoding, FloatArray, Rows
from autotune.search.model.start import StartModel
from autotune.search.model.step import StepModel
from autotune.search.model.surrogate import Surrogate, option_terms
from autotune.search.observation import Observation

STEPS = 25  # n: six of warm-up, a dozen blocks of one step, and the rest for cached compute and memory
MISSED_SD = 0.5  # log ratio of a trial's wall time that one option may make; judgement
LEAST_FIXED_S = 1.0
DEAR = 4.0  # times the middle cost of the trials so far: a dearer trial is not worth its time; judgement


class CostModel:
    """Learned from the trials so far, of which one at least was timed."""

    def __init__(
        self, encoding: Encoding, rows: Rows, seen: Sequence[Observation], time: StepModel, start: StartModel
    ) -> None:
        """`seen` are measured trials with a wall time, at `rows`."""
        self._encoding, self._time, self._start = encoding, time, start
        costs = np.array([trial.cost_s for trial in seen])
        left = costs - self._steps_s(rows) - start.added_s(rows)
        self._fixed_s = max(LEAST_FIXED_S, float(np.median(left)))
        # by the law too, which is what it is held against: where trials cost less than it says, nothing would be left
        self._limit_s = DEAR * max(float(np.median(costs)), float(np.median(self._law(rows))))
        terms = option_terms(encoding, ("compute",), sd=MISSED_SD, skip=("batch_size",))
        law = self._law(rows) + start.added_s(rows)
        self._missed = Surrogate(terms, rows, np.log(costs / law), interactions=False)

    def predict(self, rows: Rows) -> FloatArray:
        """Return the expected wall time of a trial of each row, seconds."""
        law = self._law(rows) + self._start.added_s(rows)
        return np.asarray(law * np.exp(self._missed.predict(rows)[0]))

    def affordable(self, rows: Rows) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Return which rows are not dear by the law, which knows of slow steps; a long start is no reason by itself."""
        return np.asarray(self._law(rows) <= self._limit_s)

    def _law(self, rows: Rows) -> FloatArray:
        return self._fixed_s + self._steps_s(rows)

    def _steps_s(self, rows: Rows) -> FloatArray:
        batch = self._encoding.numbers("batch_size", rows, 1.0)
        return np.asarray(STEPS * batch * np.exp(self._time.log_time(rows)))
