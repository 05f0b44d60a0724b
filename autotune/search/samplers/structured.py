"""The structured sampler: it knows how training steps work and spends trials only where that is unknown."""

from __future__ import annotations

from typing import Any

import numpy as np
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler, RandomSampler
from optuna.study import Study
from optuna.trial import FrozenTrial

from autotune.config import Config
from autotune.options.space import Space
from autotune.search.model import candidates as pool
from autotune.search.model.belief import LIKELY_FITS, Belief
from autotune.search.model.encoding import INERT, Encoding, FloatArray, Rows
from autotune.search.samplers.distributions import contains, distributions, parameters
from autotune.search.samplers.history import History, read_history
from autotune.search.samplers.objectives import Objective, Throughput
from autotune.search.samplers.plan import largest_fitting, next_anchor, sizes_between, smallest_too_large

SAMPLES = 64  # posterior samples an expected gain is averaged over, in antithetic pairs
PROMISING = 4_000  # configs that survive the quick look
OPTIMISM = 1.5  # standard deviations below the mean that the quick look supposes; judgement: what EI mostly feeds on
CAUTION = 2  # exponent of P(fits): a trial that does not fit is lost and teaches but a bound; by simulation (synthetic)
LEAST_FITS = 0.15  # configs less likely to fit are never tried
BOLD_TRIALS = 5  # so long a trial that does not fit teaches where the limit is; later ones know it; judgement
# exponent of a trial's cost: 0 for a budget in trials, 1 for one in seconds; half way by simulation (synthetic)
THRIFT, TIMED_THRIFT = 0.5, 1.0
FEW_TRIALS = 8  # below this budget the model only exploits
NEIGHBOURHOODS = 5  # best configs whose neighbours are candidates in a large space
SMALL_GAIN = 0.01  # expected improvement that is not worth a trial
PATIENCE = 3  # proposals in a row with a small gain before a search stops


class StructuredSampler(BaseSampler):
    """Proposes one config at a time over the flat space of `distributions(space)`.

    It reads only what is stored with the study's trials and keeps no state: the same seed and records give
    the same proposal, so that a resumed search goes on as if it had never stopped.
    """

    def __init__(
        self,
        space: Space,
        seed: int = 0,
        *,
        trials: int | None = None,
        timed: bool = False,
        objective: Objective | None = None,
    ) -> None:
        """Search `space` with a budget of `trials` (None: open-ended), and of time as well where it is `timed`."""
        self.space = space
        self.seed = seed
        self.trials = trials
        self.thrift = TIMED_THRIFT if timed else THRIFT
        self.objective = objective or Throughput()
        self._distributions = distributions(space)

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        return self._distributions

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        return parameters(self.space, self.propose(read_history(study, self.space, trial)))

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """Draw a parameter that is not of this space at random."""
        random = RandomSampler(seed=self.seed + trial.number)
        return random.sample_independent(study, trial, param_name, param_distribution)

    def propose(self, history: History) -> Config:
        """Return the canonical config to measure next."""
        anchor = next_anchor(self.space, history)
        if anchor is not None:
            return anchor
        belief = self.believe(history)
        if belief is None:
            return self._at_random(history)
        anchor = largest_fitting(self.space, history, belief)
        if anchor is not None:
            return anchor
        rows, values, _ = self._evaluate(belief, len(history.seen), len(history.running))
        for index in np.argsort(-values, kind="stable"):
            config = belief.encoding.config(rows[index])
            if self._may_be_proposed(config):
                return config
        # all is measured: the best once more
        again = (belief.encoding.config(belief.measured[index]) for index in self.objective.order(belief))
        return next((config for config in again if self._may_be_proposed(config)), None) or self._at_random(history)

    def ranking(self, study: Study) -> list[Config]:
        """Return the measured configs that fit, best first by the posterior mean of the objective."""
        belief = self.believe(read_history(study, self.space))
        if belief is None:
            return []
        return [belief.encoding.config(belief.measured[index]) for index in self.objective.order(belief)]

    def reason_to_stop(self, study: Study) -> str | None:
        """Return why going on is not worth it, in words, or None."""
        history = read_history(study, self.space)
        told = len(history.seen)
        gains = self._gains_left(history)
        if gains is None:
            return None
        if len(gains) == 0:
            return "every config that likely fits, in a trial that is not too long, has been measured"
        if self.trials is not None and pool.count(Encoding(self.space)) <= self.trials:
            return None  # so small a space is measured whole, but for what likely does not fit
        for back in range(PATIENCE):
            gains = gains if back == 0 else self._gains_left(history.before(told - back))
            if gains is None or gains.max(initial=0.0) >= SMALL_GAIN:
                return None
        return f"the expected improvement stayed under {SMALL_GAIN:.0%} for {PATIENCE} proposals"

    def _gains_left(self, history: History) -> FloatArray | None:
        """Return the expected gain of each config left, or None while the anchors are not done."""
        belief = None if next_anchor(self.space, history) else self.believe(history)
        if belief is None or largest_fitting(self.space, history, belief) is not None:
            return None
        return self._evaluate(belief, len(history.seen), len(history.running))[2]

    def believe(self, history: History) -> Belief | None:
        """Return the posterior, or None before anything was measured."""
        if not any(trial.outcome.measured and trial.sample_s for trial in history.seen):
            return None
        beside = [Config(batch_size=size) for size in sizes_between(self.space, history)]
        return Belief(self.space, history.seen, history.running, beside)

    def _evaluate(self, belief: Belief, told: int, running: int) -> tuple[Rows, FloatArray, FloatArray]:
        """Return the configs left, what each is worth as the next trial, and its expected gain."""
        rng = np.random.default_rng([self.seed, told, running])
        rows = self._candidates(belief, rng)
        least = LEAST_FITS if told < BOLD_TRIALS else LIKELY_FITS
        rows = rows[(belief.fits(rows) >= least) & belief.affordable(rows)]
        if len(rows) > PROMISING:
            quick = self._worth(belief, told, rows, np.full((1, 3), -OPTIMISM))[0]
            rows = rows[np.sort(np.argsort(-quick, kind="stable")[:PROMISING])]
        half = rng.standard_normal((SAMPLES // 2, 3))
        if self.trials is not None and self.trials < FEW_TRIALS:
            half = np.zeros((1, 3))  # no trials left to learn from: the posterior mean decides
        return rows, *self._worth(belief, told, rows, np.concatenate([half, -half]))

    def _worth(self, belief: Belief, told: int, rows: Rows, normals: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return what each row is worth as the next trial, and its expected gain.

        Worth is not the gain an expected second: it counts P(fits) twice, since a trial that does not fit is lost, and
        the cost by its root, since most budgets are counted in trials.
        """
        outlook = belief.outlook(rows, normals)
        chance = outlook.fits**CAUTION * outlook.runs
        worth = self.objective.gain_at(told, belief, outlook) * chance / outlook.costs**self.thrift
        gains = self.objective.gain(belief, outlook) * chance
        if not worth.any():  # no gain expected anywhere: prefer what is nearest to one
            worth = -outlook.times.mean(axis=0) / chance.clip(LEAST_FITS**CAUTION)
        return worth, gains

    def _candidates(self, belief: Belief, rng: np.random.Generator) -> Rows:
        encoding = belief.encoding
        best = belief.measured[self.objective.order(belief)[:NEIGHBOURHOODS]]
        rows = np.concatenate([pool.candidates(encoding, best, rng), pool.refined(encoding, best, "batch_size")])
        rows = pool.without(encoding, rows, np.concatenate([belief.tried, belief.running]))
        return pool.without_conflicts(encoding, self._of_the_space(encoding, rows))

    def _of_the_space(self, encoding: Encoding, rows: Rows) -> Rows:
        """Return the rows without the values that a trial beside the space brought in: those of the baseline."""
        for column, name in enumerate(encoding.names):
            fine = [contains(self._distributions, Config(**{name: value})) for value in encoding.values[column]]
            rows = rows[(rows[:, column] == INERT) | np.array(fine, dtype=bool)[rows[:, column]]]
        return rows

    def _at_random(self, history: History) -> Config:
        """Return a legal config that was not tried, while nothing has been measured yet."""
        encoding = Encoding(self.space, history.configs)
        rng = np.random.default_rng([self.seed, len(history.seen), len(history.running)])
        rows = _below(encoding, pool.drawn(encoding, SAMPLES, rng), history)
        fresh = pool.without(encoding, rows, encoding.rows(history.configs)) if history.configs else rows
        for row in [*fresh, *rows]:
            config = encoding.config(row)
            if self._may_be_proposed(config):
                return config
        return self.space.baseline

    def _may_be_proposed(self, config: Config) -> bool:
        return self.space.legal(config) is None and contains(self._distributions, config)


def _below(encoding: Encoding, rows: Rows, history: History) -> Rows:
    """Return the rows with a smaller batch than any that ran out of memory, or with the smallest where none has."""
    too_large = smallest_too_large(history)
    if too_large is None or not len(rows):
        return rows
    sizes = encoding.numbers("batch_size", rows, 1.0)
    below = rows[sizes < too_large]
    return below if len(below) else rows[sizes == sizes.min()]
