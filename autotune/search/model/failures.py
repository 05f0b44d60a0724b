"""Which configs will not run at all, for reasons other than memory.

A failure is charged, in equal parts, to those option values of the failing config that no successful config has; where
every value has worked elsewhere, to all of them. The probability that a value works is (s + a) / (s + f + a) after s
successes and f failures charged to it, Laplace's rule with a fraction of a success imagined: an untried value counts as
working, and one failure weighs heavily, because what fails once on a workload mostly fails always.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from autotune.search.model.encoding import INERT, Encoding, FloatArray, Rows

IMAGINED = 0.25  # successes; one failure leaves a chance of one in five; judgement: failing once is mostly for good


class FailureModel:
    """Failures by option value. `unsupported` marks the failed rows whose value can never work here."""

    def __init__(self, encoding: Encoding, succeeded: Rows, failed: Rows, unsupported: npt.NDArray[np.bool_]) -> None:
        worked = [_levels(succeeded[:, column], values) for column, values in enumerate(encoding.values)]
        charged = [np.zeros(len(values)) for values in encoding.values]
        self._runs = [np.ones(len(values) + 1) for values in encoding.values]
        never: list[tuple[int, int]] = []
        for row, hopeless in zip(failed, unsupported, strict=True):
            active = [(column, int(level)) for column, level in enumerate(row) if level != INERT]
            suspects = [(column, level) for column, level in active if not worked[column][level]]
            for column, level in suspects or active:
                charged[column][level] += 1 / len(suspects or active)
            if hopeless and len(suspects) == 1:
                never += suspects
        for column, runs in enumerate(self._runs):
            runs[:-1] = (worked[column] + IMAGINED) / (worked[column] + charged[column] + IMAGINED)
        for column, level in never:
            self._runs[column][level] = 0.0

    def runs(self, rows: Rows) -> FloatArray:
        """Return the probability that each row runs."""
        return np.asarray(
            np.prod([runs[rows[:, column]] for column, runs in enumerate(self._runs)], axis=0), dtype=float
        )


def _levels(levels: npt.NDArray[np.integer], values: Sequence[object]) -> FloatArray:
    """Return how often each level occurs."""
    return np.bincount(levels[levels != INERT], minlength=len(values)).astype(float)
