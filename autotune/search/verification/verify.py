"""Verification as a whole: choose among the finalists, then claim for each of the two answers."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

from autotune.config import Config
from autotune.options.accumulation import keeps_samples
from autotune.search.aim import FASTEST, Aim
from autotune.search.verification.choice import Choice, Dropped, Ranked, choose
from autotune.search.verification.claim import Claim, claim
from autotune.search.verification.design import THOROUGH, Design
from autotune.search.verification.result import Verification
from autotune.search.verification.statistics import MIN_PAIRS, NO_FASTER, Verdict
from autotune.search.verification.windows import Bench, Measure

CHOOSE_SHARE = 0.4  # of the time at most: 4 rounds of 4 arms against 12 of 2


def verify(
    measure: Measure,
    baseline: Config,
    finalists: Sequence[Config],
    *,
    keeps_batch: Callable[[Config], bool] | None = None,
    aim: Aim = FASTEST,
    design: Design = THOROUGH,
    seed: int = 0,
    deadline_s: float = math.inf,
    clock: Callable[[], float] = time.monotonic,
    window_s: float = 0.0,
    self_test: bool = False,
) -> Verification:
    """Find the best of `finalists` and say what is proven of it, and of the best that keeps the baseline's batch.

    Args:
        measure: measures one window in a fresh process, by a plan fixed beforehand and without early stop.
        finalists: canonical configs, best first by the search, those that keep the batch among them.
        keeps_batch: whether a config makes as many samples a step as the baseline; by default, found by its values.
        aim: what is best.
        deadline_s: reading of `clock` at which everything has to be done.
        window_s: expected wall time of a window, from the search.
        self_test: first compare the baseline with itself.
    """
    bench = Bench(measure, deadline_s=deadline_s, clock=clock, window_s=window_s)
    keeps = keeps_batch or (lambda config: keeps_samples(config, baseline))
    distinct = [config for config in dict.fromkeys(finalists) if config != baseline]
    tested = None
    if self_test:
        # at most a fifth: the answers need the rest
        tested = claim(bench.part(0.2), baseline, baseline, design, alpha=design.alpha, seed=seed, stage="aa")
    choice = choose(bench.part(CHOOSE_SHARE), baseline, distinct, design, seed)
    best, same_batch, passed_over, dropped = _answers(bench, baseline, choice, keeps, aim, design, seed)
    return Verification(
        design=design,
        choice=choice,
        best=best,
        same_batch=same_batch,
        passed_over=passed_over,
        dropped=(*choice.dropped, *dropped),
        self_test=tested,
    )


def _answers(
    bench: Bench,
    baseline: Config,
    choice: Choice,
    keeps: Callable[[Config], bool],
    aim: Aim,
    design: Design,
    seed: int,
) -> tuple[Claim | None, Claim | None, Claim | None, list[Dropped]]:
    """Return the claims of both answers (the second only where it is another config), that of a config which was to be
    the first and is not, and who was dropped.
    """
    baseline_s = choice.baseline_s or math.inf
    order = _by(aim, choice.ranking, baseline_s)
    keeping = _by(aim, [ranked for ranked in choice.ranking if keeps(Config(**ranked.config))], baseline_s)
    two = bool(keeping) and not keeps(order[0])
    alpha = design.alpha / 2 if two else design.alpha
    dropped: list[Dropped] = []

    def first_that_runs(bench: Bench, candidates: Sequence[Config], seed: int) -> Claim | None:
        for candidate in candidates:
            found = claim(bench, baseline, candidate, design, alpha=alpha, seed=seed)
            if not found.failure:
                return found
            dropped.append(Dropped(config=dict(candidate), stage="claim", reason=found.failure))
        return None

    half = bench.part(0.5)
    # two answers of which nothing can be said are worth less than one
    shared = two and half.affords(MIN_PAIRS * [baseline, order[0]])
    best = first_that_runs(half if shared else bench, order, seed + 1)
    failed = [Config(**item.config) for item in dropped]
    left = [config for config in keeping if config not in failed]
    if not two or not left or best is None or Config(**best.candidate) == left[0]:
        return best, None, None, dropped
    same_batch = first_that_runs(bench, left, seed + 2)
    if aim == FASTEST and best.verdict in NO_FASTER and same_batch and same_batch.verdict is Verdict.FASTER:
        return same_batch, None, best, dropped  # else the baseline would be the first answer, beside what beats it
    return best, same_batch, None, dropped


def _by(aim: Aim, ranking: Sequence[Ranked], baseline_s: float) -> list[Config]:
    """Return the answers among them, best first. Without a round there are no figures, and the search's order stays.

    Where none is an answer, because the baseline is too much faster than all, the ranking stays as well.
    """
    if all(ranked.sample_s for ranked in ranking):
        ranking = (
            aim.order(
                ranking,
                lambda ranked: ranked.sample_s or math.inf,
                lambda ranked: ranked.peak_bytes or math.inf,
                beside_s=baseline_s,
            )
            or ranking
        )
    return [Config(**ranked.config) for ranked in ranking]


def within_noise(choice: Choice) -> list[Ranked]:
    """Return the finalists that the choice does not tell from its first, smallest memory first."""
    return sorted((ranked for ranked in choice.ranking if ranked.tied), key=lambda ranked: ranked.peak_bytes)
