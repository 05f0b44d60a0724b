"""The second answer: the best config that keeps the baseline's samples per optimizer step. Trials are kept for it.

Options mostly multiply, so that what is best at another batch size is a good guess at the baseline's, where the sampler
may never have tried it. The guesses are measured at the end, when the best are known.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from autotune.config import Config
from autotune.options.accumulation import keeps_samples
from autotune.options.space import Space
from autotune.search.model.belief import LIKELY_FITS, Belief
from autotune.search.observation import Observation
from autotune.search.setup import Wishes

KEPT = ((24, 3), (12, 2), (5, 1))
"""(trials of the search from which on, how many of them are kept for the second answer)"""


def has_two_answers(space: Space, wishes: Wishes) -> bool:
    """Whether the batch size is the search's to choose: the user has not said what it should be."""
    named = {*wishes.fixed, *wishes.restricted, *wishes.excluded}
    settled = wishes.keeps_batch or wishes.effective_batch is not None
    return not settled and "batch_size" not in named and len(space.choices.get("batch_size", ())) > 1


def trials_kept(trials: int) -> int:
    """Return how many of a search's trials are kept for the second answer."""
    return next((kept for least, kept in KEPT if trials >= least), 0)


def counterparts(space: Space, best: Sequence[Config], known: Collection[Config]) -> list[Config]:
    """Return the `best` configs with the baseline's samples per optimizer step, as far as they are not `known`."""
    today = {name: space.baseline[name] for name in ("batch_size", "accumulation") if name in space.baseline}
    moved = [space.canonical(config.replace(**today)) for config in best if not keeps_samples(config, space.baseline)]
    return [config for config in dict.fromkeys(moved) if config not in known and space.legal(config) is None]


def likely_fit(space: Space, seen: Sequence[Observation], configs: Sequence[Config]) -> list[Config]:
    """Return the configs that likely fit after what was seen: the best may have a smaller batch than the baseline."""
    belief = Belief(space, seen, beside=configs)
    fits = belief.fits(belief.encoding.rows(configs)) >= LIKELY_FITS
    return [config for config, fine in zip(configs, fits, strict=True) if fine]
