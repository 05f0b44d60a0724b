"""An additive Gaussian process over configs: what one side of a step costs, as a natural logarithm.

    y(x) = constant + sum_o m_o(x_o) + sum_o f_o(x_o) + sum_{o<p} g_op(x_o, x_p) + h(x) + noise

m_o is the option's own prior mean; f_o, g_op and h are Gaussian processes with covariances
    sd_o(v) sd_o(v') k_o(v, v'),   pair^2 k_o k_p,   full^2 prod_o k_o
where k_o is squared-exponential over the level of an ordered option and an equality kernel otherwise.
Additive kernels: Duvenaud, Nickisch, Rasmussen, "Additive Gaussian processes", NeurIPS 2011; the posterior
and the marginal likelihood: Rasmussen & Williams, "Gaussian processes for machine learning", 2006, equations
2.23 to 2.26, 2.30. The scales of f, of g and of the noise are the maximum a posteriori on a small grid.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autotune.search.model.encoding import Encoding, FloatArray, Rows

CONSTANT_SD = 1.0  # the overall level comes from the data
PAIR_SD = 0.02  # log ratio: two options together differ from their product by about 2 %; judgement, scaled by the data
FULL_SD = 0.02  # and what no pair explains; judgement, as large as a pair
MAIN_SCALES = (0.5, 0.75, 1.0, 1.5, 2.5)  # of the options' own sd: priors may be timid or bold
ROUGH = 0.1  # share of an ordered option's variance that neighbours do not share; by simulation: batches that jump
PAIR_SCALES = (0.5, 1.0, 2.0, 4.0)
NOISES = (0.01, 0.02, 0.03, 0.045, 0.07, 0.11)  # relative, one trial against its replicate
MAIN_SPREAD, PAIR_SPREAD, NOISE_SPREAD = (
    0.5,
    0.7,
    0.7,
)  # sd of the log-normal hyperpriors around 1, 1 and USUAL_NOISE
USUAL_NOISE = 0.03
CHUNK = 20_000  # candidates handled at a time, to bound memory


@dataclass(frozen=True)
class Term:
    """One option's part. Arrays are by level, the last entry standing for inert."""

    column: int
    mean: FloatArray
    sd: FloatArray
    correlation: FloatArray
    host_bytes: FloatArray


def option_terms(
    encoding: Encoding, sides: Collection[str], *, sd: float | None = None, skip: Collection[str] = ()
) -> list[Term]:
    """Return the terms of the options that move one of `sides`.

    With `sd` the terms have that spread and no prior mean: for quantities of which options claim nothing.
    """
    terms = []
    for column, option in enumerate(encoding.options):
        if option.name in skip or not option.affects & set(sides) or len(encoding.values[column]) < 2:
            continue
        effects = [option.prior(value, encoding.space.context) for value in encoding.values[column]]
        mean = [sum(getattr(effect, side) for side in sides if side in option.affects) for effect in effects]
        spread = [effect.sd for effect in effects]
        if sd is not None:
            mean, spread = [0.0] * len(effects), [sd] * len(effects)
        if not option.ordered and encoding.default[column] >= 0:
            spread[encoding.default[column]] = 0.0  # effects are against the default
        alike = correlation(encoding, column)
        host_bytes = np.array([*(effect.host_bytes for effect in effects), 0.0])
        terms.append(Term(column, np.array([*mean, 0.0]), np.array([*spread, 0.0]), alike, host_bytes))
    return terms


def correlation(encoding: Encoding, column: int) -> FloatArray:
    """Return how alike the levels of one option are; inert is a level of its own, the last."""
    levels = len(encoding.values[column])
    alike = np.eye(levels + 1)
    if encoding.options[column].ordered:
        place = encoding.positions(column)
        length = max(1.0, (encoding.offered[column] - 1) / 3)  # a third of the range: few bends are expected
        smooth = np.exp(-0.5 * ((place[:, None] - place) / length) ** 2)
        alike[:levels, :levels] = (1 - ROUGH) * smooth + ROUGH * np.eye(levels)
    return alike


def groups(terms: Sequence[Term], rows: Rows) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Return the first row of each group that is alike in every term, and each row's group."""
    key = np.zeros(len(rows), dtype=np.uint64)
    for term in terms:
        key = key * np.uint64(len(term.mean)) + (rows[:, term.column] + 1).astype(np.uint64)
    _, first, group = np.unique(key, return_index=True, return_inverse=True)
    return first, group


class Surrogate:
    """The posterior after `targets` (natural logarithms) were seen at `rows`.

    `believed` are configs being measured elsewhere: they count as seen at their posterior mean. Without
    `interactions` only f_o is left.
    """

    def __init__(
        self,
        terms: Sequence[Term],
        rows: Rows,
        targets: FloatArray,
        *,
        believed: Rows | None = None,
        interactions: bool = True,
    ) -> None:
        self._terms = terms
        self._pair_sd, self._full_sd = (PAIR_SD, FULL_SD) if interactions else (0.0, 0.0)
        self._rows = rows
        offsets = targets - self._mean(rows)
        self._constant = float(offsets.mean())
        self._residual = offsets - self._constant
        main, pair, full = self._parts(rows, rows)
        self.main, self.pair, self.noise = _map_scales(self._residual, main, pair, full)
        self._condition()
        if believed is not None and len(believed):
            mean, _ = self.predict(believed)
            self._rows = np.concatenate([rows, believed])
            self._residual = np.concatenate([self._residual, mean - self._mean(believed) - self._constant])
            self._condition()

    def predict(self, rows: Rows) -> tuple[FloatArray, FloatArray]:
        """Return mean and standard deviation of the noise-free logarithm at each row."""
        # rows that differ only in options of the other side are the same here
        first, group = groups(self._terms, rows)
        rows = rows[first]
        means, deviations = np.empty(len(rows)), np.empty(len(rows))
        for start in range(0, len(rows), CHUNK):
            chunk = slice(start, start + CHUNK)
            means[chunk], deviations[chunk] = self._predict(rows[chunk])
        return means[group], deviations[group]

    def _predict(self, rows: Rows) -> tuple[FloatArray, FloatArray]:
        cross = self._covariance(self._rows, rows)
        mean = self._mean(rows) + self._constant + cross.T @ self._weights
        explained = np.einsum("ij,ij->j", cross, self._inverse @ cross)
        own = CONSTANT_SD**2 + (self.pair * self._pair_sd) ** 2 * self._pairs() + self._full_sd**2
        own = own + self.main**2 * np.sum([(term.sd**2)[rows[:, term.column]] for term in self._terms], axis=0)
        return mean, np.sqrt(np.maximum(own - explained, 1e-12))

    def _condition(self) -> None:
        covariance = self._covariance(self._rows, self._rows)
        covariance[np.diag_indices_from(covariance)] += self.noise**2
        self._inverse = np.linalg.inv(covariance)
        self._weights = self._inverse @ self._residual

    def _mean(self, rows: Rows) -> FloatArray:
        means = [term.mean[rows[:, term.column]] for term in self._terms]
        return np.asarray(np.sum(means, axis=0) + np.zeros(len(rows)))

    def _covariance(self, left: Rows, right: Rows) -> FloatArray:
        main, pair, full = self._parts(left, right)
        return CONSTANT_SD**2 + self.main**2 * main + self.pair**2 * pair + full

    def _parts(self, left: Rows, right: Rows) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the covariances of the main terms, the pairs and the full term, at scale one."""
        shape = (len(left), len(right))
        main, total, squares, product = np.zeros(shape), np.zeros(shape), np.zeros(shape), np.ones(shape)
        for term in self._terms:
            alike = np.take(term.correlation[left[:, term.column]], right[:, term.column], axis=1)
            main += alike * term.sd[left[:, term.column], None] * term.sd[right[:, term.column]]
            if self._pair_sd:
                total += alike
                squares += alike**2
                product *= alike
        # the sum over pairs of products is half of the square of the sum less the squares (Newton-Girard)
        return main, self._pair_sd**2 * (total**2 - squares) / 2, self._full_sd**2 * product

    def _pairs(self) -> int:
        return len(self._terms) * (len(self._terms) - 1) // 2


def _map_scales(
    residual: FloatArray, main: FloatArray, pair: FloatArray, full: FloatArray
) -> tuple[float, float, float]:
    """Return the scales of main terms and pairs and the noise that explain the data best."""
    pair_scales = PAIR_SCALES if pair.any() else (1.0,)
    grid = np.array(list(itertools.product(MAIN_SCALES, pair_scales, NOISES)))
    scale, interaction, noise = grid.T[:, :, None, None]
    covariance = CONSTANT_SD**2 + scale**2 * main + interaction**2 * pair + full + noise**2 * np.eye(len(residual))
    factor = np.linalg.cholesky(covariance)
    white = np.linalg.solve(factor, residual[None, :, None])[:, :, 0]
    evidence = -0.5 * (white**2).sum(axis=1) - np.log(np.diagonal(factor, axis1=1, axis2=2)).sum(axis=1)
    away = np.log(grid / (1.0, 1.0, USUAL_NOISE)) / (MAIN_SPREAD, PAIR_SPREAD, NOISE_SPREAD)
    best = grid[np.argmax(evidence - 0.5 * (away**2).sum(axis=1))]
    return float(best[0]), float(best[1]), float(best[2])
