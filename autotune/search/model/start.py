"""Seconds until a training runs at its pace: what every config needs, and what some options add (compiling).

    start = base + factor * sum of what the options say they add

Base and factor are medians over the trials so far: how long a compilation takes depends on the model, and hardly on
the rest of the config.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from autotune.records import start_share_s
from autotune.search.model.encoding import Encoding, FloatArray, Rows
from autotune.search.observation import Observation


class StartModel:
    """Learned from measured trials, at `rows`."""

    def __init__(self, encoding: Encoding, rows: Rows, seen: Sequence[Observation]) -> None:
        context = encoding.space.context
        self._said = [
            np.array([*(option.start_s(value, context) for value in values), 0.0])  # the last one is inert
            for option, values in zip(encoding.options, encoding.values, strict=True)
        ]
        self.planned_samples = next((trial.planned_samples for trial in seen if trial.planned_samples), None)
        took, said = np.array([trial.start_s for trial in seen]), self._expected(rows)
        plain = took[said == 0]
        self._base = float(np.median(plain)) if len(plain) else float(np.median(np.maximum(0.0, took - said)))
        added = (took - self._base)[said > 0] / said[said > 0]
        self._factor = max(0.0, float(np.median(added))) if len(added) and took.any() else 1.0

    def added_s(self, rows: Rows) -> FloatArray:
        """Return the seconds that the options of each row add to its start."""
        return self._factor * self._expected(rows)

    def share_s(self, rows: Rows) -> FloatArray:
        """Return the start's share in the time of a sample; 0 where nobody said how long the training will be."""
        return (self._base + self.added_s(rows)) * start_share_s(1.0, self.planned_samples)

    def _expected(self, rows: Rows) -> FloatArray:
        said = [table[rows[:, column]] for column, table in enumerate(self._said)]
        return np.asarray(np.sum(said, axis=0) + np.zeros(len(rows)))
