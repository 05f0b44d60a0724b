"""Peak memory of a config, nearly affine in the batch size.

    log peak = log(P prod_o a_o + S prod_o b_o batch) + error

P (fixed part, bytes), S (bytes a sample) and the factors a_o, b_o of every memory-relevant option have log-
normal priors. The estimate is the maximum a posteriori by damped Gauss-Newton, its covariance Laplace's
(MacKay, "Information theory, inference and learning algorithms", 2003, chapter 27). A trial that ran out of
memory is a censored observation (Tobin 1958): its peak is at least the limit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr, ndtr

from autotune.search.model.encoding import Encoding, FloatArray, Rows
from autotune.search.model.surrogate import groups, option_terms

UNKNOWN_SD = 1.0  # of log P and log S: known to a factor of e from the first peak alone
UNCLAIMED_SD = 0.08  # of a log factor for which the option claims no effect, as on the fixed part
PROCESS_BYTES = 300 * 2**20  # of the host: Python with torch, before there is a model
ERROR_SD = 0.02  # allocator rounding, fragmentation; what the affine law misses
ERROR_WEIGHT = 4.0  # trials that the expected error counts for against the residuals seen
STEPS = 30


@dataclass(frozen=True, kw_only=True)
class Peak:
    """One observed peak: bytes at a batch size, or at least that (`censored`)."""

    row: int
    """index into the rows given beside it"""
    batch: float
    peak_bytes: float
    censored: bool = False


class MemoryModel:
    """The posterior of P, S and the factors after some peaks were seen."""

    def __init__(self, encoding: Encoding, rows: Rows, peaks: Sequence[Peak], batch: str = "batch_size") -> None:
        self._encoding = encoding
        self._batch = batch
        self._terms = option_terms(encoding, ("memory",), skip=(batch,))
        self._sizes = [len(term.mean) - 1 for term in self._terms]
        mean, covariance = self._prior(peaks)
        precision = np.asarray(np.linalg.inv(covariance), dtype=np.float64)
        which = rows[[peak.row for peak in peaks]]
        batches = np.array([peak.batch for peak in peaks])
        logs = np.log(np.array([float(peak.peak_bytes) for peak in peaks]))
        censored = np.array([peak.censored for peak in peaks])
        self.error = ERROR_SD
        for _ in range(2):  # the second pass knows how well the affine law holds here
            self._estimate, hessian = self._maximise(mean, precision, which, batches, logs, censored)
            residual = (logs - self._log_peak(self._estimate, which, batches)[0])[~censored]
            surplus = ERROR_WEIGHT * ERROR_SD**2 + float(residual @ residual)
            self.error = float(np.sqrt(surplus / (ERROR_WEIGHT + len(residual))))
        self._covariance = np.linalg.inv(hessian)

    def predict(self, rows: Rows) -> tuple[FloatArray, FloatArray]:
        """Return mean and standard deviation of the log peak (bytes) that a trial of each row would show."""
        batches = self._encoding.numbers(self._batch, rows, 1.0)
        # rows that differ only in the batch size share everything but the share that grows with it
        first, group = groups(self._terms, rows)
        fixed, growing = self._design(rows[first])
        parts = [(fixed, fixed), (fixed, growing), (growing, growing)]
        fixed_variance, covariance, growing_variance = (
            np.einsum("ij,ij->i", a @ self._covariance, b)[group] for a, b in parts
        )
        large = (growing @ self._estimate)[group] + np.log(batches)
        total = np.logaddexp((fixed @ self._estimate)[group], large)
        share = np.exp(large - total)
        variance = (1 - share) ** 2 * fixed_variance + share**2 * growing_variance
        variance += 2 * share * (1 - share) * covariance
        return total, np.sqrt(variance + self.error**2)

    def fits(self, rows: Rows, limit_bytes: float) -> FloatArray:
        """Return the probability that the peak stays within the limit."""
        mean, sd = self.predict(rows)
        return np.asarray(ndtr((np.log(limit_bytes) - mean) / sd))

    def _prior(self, peaks: Sequence[Peak]) -> tuple[FloatArray, FloatArray]:
        """Return mean and covariance of (log P, log S, log a.., log b..).

        The first peak is supposed to be half fixed, half batch, but for what a process on a host has by itself.
        """
        first = peaks[0]
        on_host = not self._encoding.space.context.facts.is_accelerator
        fixed_bytes = min(PROCESS_BYTES, first.peak_bytes / 2) if on_host else 0.0
        growing_bytes = (first.peak_bytes - fixed_bytes) / 2
        mean = [np.log(fixed_bytes + growing_bytes), np.log(growing_bytes / first.batch)]
        width = 2 + 2 * sum(self._sizes)
        covariance = np.zeros((width, width))
        covariance[[0, 1], [0, 1]] = UNKNOWN_SD**2
        start = 2
        for fixed in (True, False):
            for term, size in zip(self._terms, self._sizes, strict=True):
                claimed = on_host * np.log1p(term.host_bytes[:-1] / np.exp(mean[0])) if fixed else term.mean[:-1]
                sd = term.sd[:-1]
                if fixed or not term.mean.any():
                    sd = np.where(sd > 0, np.hypot(UNCLAIMED_SD, claimed), 0.0)
                block = slice(start, start + size)
                covariance[block, block] = sd[:, None] * sd * term.correlation[:-1, :-1]
                mean.extend(claimed)
                start += size
        covariance[np.diag_indices_from(covariance)] += 1e-8  # a level that is certain stays invertible
        return np.array(mean), covariance

    def _design(self, rows: Rows) -> tuple[FloatArray, FloatArray]:
        """Return which parameters make up the fixed part and the part that grows with the batch size."""
        chosen = [np.zeros((len(rows), 2 + 2 * sum(self._sizes))) for _ in range(2)]
        start = 2
        for side in range(2):
            chosen[side][:, side] = 1.0
            for term, size in zip(self._terms, self._sizes, strict=True):
                levels = rows[:, term.column]
                active = np.flatnonzero(levels >= 0)
                chosen[side][active, start + levels[active]] = 1.0
                start += size
        return chosen[0], chosen[1]

    def _log_peak(self, estimate: FloatArray, rows: Rows, batches: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the log peak of each row and its derivative by each parameter."""
        fixed, growing = self._design(rows)
        large = growing @ estimate + np.log(batches)
        total = np.logaddexp(fixed @ estimate, large)
        share = np.exp(large - total)[:, None]
        return total, (1 - share) * fixed + share * growing

    def _maximise(
        self,
        mean: FloatArray,
        precision: FloatArray,
        rows: Rows,
        batches: FloatArray,
        logs: FloatArray,
        censored: FloatArray,
    ) -> tuple[FloatArray, FloatArray]:
        """Return the maximum a posteriori and the Hessian of the negative log posterior there."""

        def loss(estimate: FloatArray) -> float:
            z = (logs - self._log_peak(estimate, rows, batches)[0]) / self.error
            away = estimate - mean
            return float(np.where(censored, -log_ndtr(-z), 0.5 * z**2).sum() + 0.5 * away @ precision @ away)

        estimate, current = mean, loss(mean)
        hessian = precision
        for _ in range(STEPS):
            value, slope = self._log_peak(estimate, rows, batches)
            z = (logs - value) / self.error
            # a peak beyond its limit pulls less the further it is believed beyond: the inverse Mills ratio
            mills = np.exp(-0.5 * z**2 - 0.5 * np.log(2 * np.pi) - log_ndtr(-z))
            pull = np.where(censored, mills, z) / self.error
            weight = np.where(censored, mills * (mills - z), 1.0) / self.error**2
            hessian = precision + slope.T @ (np.maximum(weight, 0.0)[:, None] * slope)
            step = np.linalg.solve(hessian, slope.T @ pull - precision @ (estimate - mean))
            shrink = 1.0
            while loss(estimate + shrink * step) > current and shrink > 1e-3:
                shrink /= 2
            estimate = estimate + shrink * step
            previous, current = current, loss(estimate)
            if abs(previous - current) < 1e-8:
                break
        return estimate, hessian
