"""Time per sample of a config once it runs at its pace, from its two sides.

    t = (compute + loader) + restart                      while the loader works inside the training process
    t = ((compute (1 + g load))^p + loader^p)^(1/p) + restart      beside worker processes

A step waits for the slower side; the p-norm rounds the corner where both are alike. g is how much the compute
suffers from loader processes and threads that share the cores, `load` by how much these exceed the cores,
`restart` the epoch's share. A step of several threads has a g of its own: each of its operations waits for the
slowest thread, so that one that lost its core costs it many times what it costs a step of one thread. What the law
misses is a small Gaussian process over all options, learned from the measured times themselves.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from autotune.search.model.encoding import Encoding, FloatArray, Rows
from autotune.search.model.surrogate import Surrogate, option_terms
from autotune.search.observation import Observation

NORM = 10.0  # p: 7 % above the slower side where both are equal
ON_CPU, ON_ACCELERATOR = 0.3, 0.0  # g before anything was measured
CONTENTION_SD = 0.3  # of g; judgement: as large as g is on a CPU, so that no contention at all is no surprise
CONTENTION_NOISE = 0.1  # of one measured contention, relative to the compute; judgement
RESTART_SD = 1.0  # of the log of the epoch's share, for each loader option: to a factor of e
RESTART_FLOOR = 1e-3  # of the time per sample: a smaller share does not matter
MISSED_SD = 0.02  # log ratio that the law may miss, for each option; judgement, as large as a pair in surrogate.py
SPREAD_SAMPLES = 200
ALL_SIDES = ("compute", "loader", "memory")


class StepModel:
    """Time per sample, learned from what was measured; `believed` are configs being measured elsewhere."""

    def __init__(
        self,
        encoding: Encoding,
        rows: Rows,
        observations: Sequence[Observation],
        believed: Rows | None = None,
    ) -> None:
        self._encoding = encoding
        total = np.array([float(seen.steady_sample_s or np.nan) for seen in observations])
        split = np.array([bool(seen.compute_s and seen.loader_s) for seen in observations])
        self._split = bool(split.any())
        if self._split:
            compute = np.array([float(seen.compute_s or np.nan) for seen in observations])
            loader = np.array([float(seen.loader_s or np.nan) for seen in observations])
            self._compute = Surrogate(
                option_terms(encoding, ("compute",)), rows[split], np.log(compute[split]), believed=believed
            )
            self._loader = Surrogate(
                option_terms(encoding, ("loader",)), rows[split], np.log(loader[split]), believed=believed
            )
            slowed = np.array([float(seen.contention_s or 0.0) for seen in observations])[split] / compute[split]
            load, several = self.load(rows[split]), self._threads(rows[split]) > 1
            self._contention = tuple(
                self._learn_contention(load[group], slowed[group]) for group in (~several, several)
            )
        else:
            self._compute = Surrogate(
                option_terms(encoding, ("compute", "loader")), rows, np.log(total), believed=believed
            )
        floor = RESTART_FLOOR * float(total.min())
        restart = np.log([seen.epoch_s + floor for seen in observations])
        self._restart = Surrogate(
            option_terms(encoding, ("loader",), sd=RESTART_SD, skip=("batch_size",)),
            rows,
            restart,
            interactions=False,
        )
        missed = np.log(total) - self._law(rows, np.zeros((1, 2)))[0]
        self._missed = Surrogate(
            option_terms(encoding, ALL_SIDES, sd=MISSED_SD), rows, missed, believed=believed, interactions=False
        )

    def load(self, rows: Rows) -> FloatArray:
        """Return by how much workers and threads exceed the cores, relative to these; 0 without workers."""
        cores = max(1.0, self._encoding.space.context.machine.usable_cores)
        workers = self._encoding.numbers("num_workers", rows, 0.0)
        return np.where(workers > 0, np.maximum(0.0, (workers + self._threads(rows)) / cores - 1.0), 0.0)

    def _threads(self, rows: Rows) -> FloatArray:
        """Return how many threads a step computes with; one that gives work to an accelerator has one."""
        facts = self._encoding.space.context.facts
        if facts.is_accelerator:
            return np.ones(len(rows))
        threads = self._encoding.numbers("num_threads", rows, 0.0)
        return np.where(threads > 0, threads, facts.default_threads)

    def log_time(self, rows: Rows) -> FloatArray:
        """Return the mean log time per sample, seconds."""
        return np.asarray(self._law(rows, np.zeros((1, 2)))[0] + self._missed.predict(rows)[0])

    def spread(self, rows: Rows) -> FloatArray:
        """Return the standard deviation of the log time per sample.

        Of samples: a loader that nobody waits for adds nothing, however little is known of it.
        """
        normals = np.random.default_rng(0).standard_normal((SPREAD_SAMPLES, 3))
        return np.asarray(np.log(self.samples(rows, normals)).std(axis=0))

    def samples(self, rows: Rows, normals: FloatArray) -> FloatArray:
        """Return posterior samples of the time per sample, seconds, one for each line of three `normals`.

        All rows share the normals: each sample is the same quantile of every row, no joint draw.
        """
        missed, missed_sd = self._missed.predict(rows)
        return np.asarray(np.exp(self._law(rows, normals[:, :2]) + missed + missed_sd * normals[:, 2:]))

    def _law(self, rows: Rows, normals: FloatArray) -> FloatArray:
        """Return the log time per sample by the law alone, for each line of normals (compute, loader)."""
        mean, sd = self._compute.predict(rows)
        compute = mean + sd * normals[:, :1]
        restart = self._restart.predict(rows)[0]
        if not self._split:
            return compute
        mean, sd = self._loader.predict(rows)
        loader = mean + sd * normals[:, 1:]
        workers = self._encoding.numbers("num_workers", rows, 0.0) > 0
        of_one, of_several = self._contention
        contention = np.where(self._threads(rows) > 1, of_several, of_one)
        slowed = compute + np.log1p(contention * self.load(rows))
        step = np.where(workers, np.logaddexp(NORM * slowed, NORM * loader) / NORM, np.logaddexp(compute, loader))
        return np.logaddexp(step, restart)

    def _learn_contention(self, load: FloatArray, slowed: FloatArray) -> float:
        """Return g: the mean of a normal prior and measured contentions, by least squares."""
        expected = ON_ACCELERATOR if self._encoding.space.context.facts.is_accelerator else ON_CPU
        precision = CONTENTION_SD**-2 + (load @ load) / CONTENTION_NOISE**2
        return max(0.0, float((expected * CONTENTION_SD**-2 + (load @ slowed) / CONTENTION_NOISE**2) / precision))
