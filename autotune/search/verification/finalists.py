"""Who is measured again: the best few configs of the search, and the best few that keep the baseline's batch."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence

from autotune.config import Config
from autotune.records import Outcome
from autotune.search.aim import FASTEST, Aim
from autotune.search.observation import Observation

FEWEST, MOST = 3, 5  # simulated at 5 % noise: four rounds of five leave 0.7 % of regret


def finalists(
    observations: Sequence[Observation],
    keeps_batch: Callable[[Config], bool],
    *,
    barred: Collection[Config] = (),
    aim: Aim = FASTEST,
    baseline_s: float = math.inf,
) -> list[Config]:
    """Return the finalists for both answers together, best first by the search's own figures.

    Each answer has the best three, and up to two more that lie within their own uncertainty of the third; or, where
    memory is to be small, the fastest, by which all are judged.
    A config that was measured several times counts with its mean; one that failed or did not fit once is out.

    Args:
        observations: the trials of a search, replicates among them.
        keeps_batch: whether a config makes as many samples a step as the baseline.
        barred: the baseline, and configs whose windows stay disturbed.
        baseline_s: seconds a sample of the baseline.
    """
    found: dict[Config, list[Observation]] = {}
    for observation in observations:
        found.setdefault(observation.config, []).append(observation)
    sound = {
        config: seen
        for config, seen in found.items()
        if config not in barred and all(_sound(observation) for observation in seen)
    }
    fastest_first = sorted(sound, key=lambda config: _log_time(sound[config]))
    chosen: set[Config] = set()
    for among in (fastest_first, [config for config in fastest_first if keeps_batch(config)]):
        if aim.keep is None:
            chosen.update(_best(among, sound))
        else:
            chosen.update([*_by(aim, among, sound, baseline_s)[:FEWEST], *among[:1]])
    chosen_first = [config for config in fastest_first if config in chosen]
    return list(dict.fromkeys([*_by(aim, chosen_first, sound, baseline_s), *chosen_first]))


def _by(aim: Aim, configs: Sequence[Config], found: dict[Config, list[Observation]], baseline_s: float) -> list[Config]:
    return aim.order(
        configs,
        lambda config: math.exp(_log_time(found[config])),
        lambda config: max(seen.peak_bytes or math.inf for seen in found[config]),
        beside_s=baseline_s,
    )


def _sound(observation: Observation) -> bool:
    # a pruned trial is proven to be slower than another one
    return observation.outcome is Outcome.OK and observation.fits is not False


def _best(order: Sequence[Config], found: dict[Config, list[Observation]]) -> list[Config]:
    if len(order) <= FEWEST:
        return list(order)
    third = _log_time(found[order[FEWEST - 1]])
    near = (
        config
        for config in order[FEWEST:MOST]
        if _log_time(found[config]) - max(seen.uncertainty for seen in found[config]) <= third
    )
    return [*order[:FEWEST], *near]


def _log_time(seen: Sequence[Observation]) -> float:
    """Return the mean of ln(seconds per sample)."""
    return sum(math.log(item.sample_s) for item in seen if item.sample_s) / len(seen)
