"""How much will be measured after the trials: checks of the guard, windows of the verification, by what is known now.

A forecast for people who wait. Nothing is planned by it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from autotune.config import Config
from autotune.options.accumulation import keeps_samples
from autotune.options.space import touching_maths
from autotune.search.verification.design import DESIGNS, Design
from autotune.search.verification.finalists import FEWEST

STAGES = ("choose", "claim", "attribute", "confirm")
"""of a verification, in their order; a window's label begins with one"""
CLEAR = 0.05  # relative gain from which on the first look settles a claim
IDLE_FROM = 3  # options of a winner, from which on one mostly gives nothing and is taken back, which is confirmed


@dataclass(frozen=True, kw_only=True)
class Afterwards:
    """What follows the trials of a search."""

    how: str = "none"
    """"full", "quick" or "none": how the winner is verified"""
    two_answers: bool = False
    """whether the best config that keeps the baseline's batch is verified, too"""
    guarded: bool = True
    """whether the numerics guard can check configs"""


NOTHING = Afterwards(guarded=False)
"""nothing follows"""


def expected_windows(
    after: Afterwards, baseline: Config, ranked: Mapping[Config, float], *, more_trials: bool = False
) -> dict[str, int]:
    """Return how many windows each stage is expected to take.

    Args:
        ranked: seconds a sample of the usable configs, best first, the baseline among them.
        more_trials: whether trials are to come, so that finalists will be found where there are none yet.
    """
    chosen = finalists(after, baseline, list(ranked))
    windows = dict.fromkeys(STAGES, 0)
    if after.how == "none" or not (chosen or more_trials):
        return windows
    design = DESIGNS[after.how]
    count = max(len(chosen), FEWEST) if more_trials else len(chosen)
    if count > 1:
        windows["choose"] = design.choose_rounds * (1 + count)
    if not chosen:
        windows |= _of_an_answer(design, after.how, IDLE_FROM, 2 * CLEAR)
    answers = _answers(after, baseline, chosen)
    for config in answers:
        gain = ranked[baseline] / ranked[config] - 1 if baseline in ranked else CLEAR
        for stage, count in _of_an_answer(design, after.how, len(config.difference(baseline)), gain).items():
            windows[stage] += count
    return windows


def expected_checks(after: Afterwards, baseline: Config, ranked: Mapping[Config, float]) -> int:
    """Return how many trials of the guard are expected: one for each maths among the configs that may win."""
    if not after.guarded:
        return 0
    chosen = finalists(after, baseline, list(ranked))
    asked = chosen if after.how != "none" else _answers(after, baseline, chosen)
    maths = {tuple(touching_maths(baseline, config).items()) for config in asked}
    return len(maths - {()})


def finalists(after: Afterwards, baseline: Config, ranked: Sequence[Config]) -> list[Config]:
    """Return who would be measured again now: the best few, and the best few that keep the baseline's batch."""
    order = [config for config in ranked if config != baseline]
    keeping = [config for config in order if keeps_samples(config, baseline)] if after.two_answers else []
    chosen = {*order[:FEWEST], *keeping[:FEWEST]}
    return [config for config in order if config in chosen]


def _answers(after: Afterwards, baseline: Config, chosen: Sequence[Config]) -> list[Config]:
    """Return the configs that would be claimed now, one or two."""
    keeping = [config for config in chosen if after.two_answers and keeps_samples(config, baseline)]
    return list(dict.fromkeys([*chosen[:1], *keeping[:1]]))


def _of_an_answer(design: Design, how: str, options: int, gain: float) -> dict[str, int]:
    windows = {"claim": 2 * (design.looks[0] if abs(gain) >= CLEAR else design.looks[-1])}
    if how == "full" and gain > design.margin:
        windows["attribute"] = design.attribution_rounds * (1 + options)
        windows["confirm"] = 3 * design.confirmation_rounds if options >= IDLE_FROM else 0
    return windows
