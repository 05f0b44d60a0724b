"""Plays a search on an instance, through a real Optuna study, and scores what it found."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import optuna
from instances import Instance
from staged import StagedSampler

from autotune.config import Config
from autotune.records import Outcome
from autotune.search.observation import ATTRIBUTE
from autotune.search.samplers import distributions, make_sampler
from autotune.search.samplers.distributions import config_from, parameters
from autotune.search.samplers.objectives import Throughput
from autotune.search.samplers.structured import StructuredSampler


@dataclass(frozen=True, kw_only=True)
class Score:
    """What a search has found after some trials."""

    regret: float
    """true time of the chosen config above the optimum's, relative"""
    hypervolume: float
    """share of the true front's area that the measured configs dominate"""
    lost: float
    """share of the trials that ran out of memory or failed"""
    seconds: float
    """wall time that the trials would have taken"""


def play(instance: Instance, strategy: str, seed: int, looks: tuple[int, ...]) -> dict[int, Score]:
    """Return the scores of a strategy after each number of trials in `looks`."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    space = instance.space
    name, _, variant = strategy.partition(":")
    objective = Throughput(front_share=0.0) if variant == "time only" else None
    if name == "staged":
        sampler: optuna.samplers.BaseSampler = StagedSampler(space, seed)
    else:
        sampler = make_sampler(name, space, seed, trials=max(looks), objective=objective)
    study = optuna.create_study(sampler=sampler)
    flat = distributions(space)
    if not isinstance(sampler, StructuredSampler):
        study.enqueue_trial(parameters(space, space.baseline))
    scores: dict[int, Score] = {}
    measured: dict[Config, list[float]] = {}
    lost, seconds = 0, 0.0
    for number in range(1, max(looks) + 1):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            trial = study.ask(flat)
        seen = instance.trial(config_from(space, trial.params), seed * 1000 + number)
        trial.set_user_attr(ATTRIBUTE, seen.to_dict())
        seconds += seen.cost_s
        if seen.outcome is Outcome.OK:
            measured.setdefault(seen.config, []).append(seen.sample_s or math.nan)
            trial.set_constraint("memory", (seen.peak_bytes or 0) / (seen.limit_bytes or 1) - 1)
            study.tell(trial, math.log(seen.sample_s or math.nan))
        else:
            lost += 1
            _tell_loss(study, trial, seen.outcome is Outcome.OUT_OF_MEMORY, named=name)
        if number in looks:
            chosen = _chosen(study, sampler, measured)
            scores[number] = Score(
                regret=float(instance.time[instance.index(chosen)]) / instance.optimum - 1,
                hypervolume=_hypervolume_share(instance, list(measured)),
                lost=lost / number,
                seconds=seconds,
            )
    return scores


def _tell_loss(study: optuna.Study, trial: optuna.Trial, out_of_memory: bool, *, named: str) -> None:
    """Tell a trial without a time as the search does; GPSampler, blind to such trials, is helped by the worst time."""
    state = optuna.trial.TrialState
    if not out_of_memory:
        study.tell(trial, state=state.FAIL)
        return
    trial.set_constraint("memory", 0.5)
    known = [
        told.value for told in study.get_trials(deepcopy=False, states=(state.COMPLETE,)) if told.value is not None
    ]
    if named == "gp" and known:
        study.tell(trial, max(known))
    else:
        study.tell(trial, state=state.PRUNED)


def _chosen(study: optuna.Study, sampler: object, measured: dict[Config, list[float]]) -> Config:
    """Return what the search would hand to verification first: by posterior mean, or by the mean of replicates."""
    if isinstance(sampler, StructuredSampler):
        return sampler.ranking(study)[0]
    return min(measured, key=lambda config: float(np.mean(np.log(measured[config]))))


def _hypervolume_share(instance: Instance, measured: list[Config]) -> float:
    corner = float(instance.time[instance.index(instance.space.baseline)]), instance.limit
    at = [instance.index(config) for config in measured]
    found = _area(np.array([instance.time[i] for i in at]), np.array([instance.peak[i] for i in at]), corner)
    return found / _area(instance.time[instance.feasible], instance.peak[instance.feasible], corner)


def _area(times: npt.NDArray[np.float64], peaks: npt.NDArray[np.float64], corner: tuple[float, float]) -> float:
    """Return the area between the front of some points and the corner."""
    area, best = 0.0, corner[0]
    order = np.argsort(peaks, kind="stable")
    for time, peak in zip(times[order], peaks[order], strict=True):
        if time < best and peak < corner[1]:
            area += (best - time) * (corner[1] - peak)
            best = time
    return area
