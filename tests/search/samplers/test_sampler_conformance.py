"""What every registered sampler does: propose within the space whatever happened before."""

from __future__ import annotations

import math
import warnings

import optuna
import pytest
from optuna.trial import TrialState

from autotune.errors import UsageError
from autotune.options import OPTIONS
from autotune.options.space import Space, make_space
from autotune.records import Outcome
from autotune.search.observation import ATTRIBUTE, INTERRUPTED, Observation
from autotune.search.samplers import SAMPLERS, distributions, make_sampler
from autotune.search.samplers.distributions import config_from, holds, parameters
from tests.search.conftest import accelerator_context, observe


def study_of(space: Space, name: str, seed: int = 0) -> optuna.Study:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna.create_study(sampler=make_sampler(name, space, seed, trials=24))


def ask(study: optuna.Study, space: Space) -> optuna.Trial:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        return study.ask(distributions(space))


def tell(study: optuna.Study, trial: optuna.Trial, seen: Observation) -> None:
    """Store an outcome the way that the search does."""
    trial.set_user_attr(ATTRIBUTE, seen.to_dict())
    if seen.outcome is Outcome.OUT_OF_MEMORY:
        trial.set_constraint("memory", 0.5)
        study.tell(trial, state=TrialState.PRUNED)
    elif seen.sample_s is None:
        study.tell(trial, state=TrialState.FAIL)
    else:
        trial.set_constraint("memory", (seen.peak_bytes or 0) / (seen.limit_bytes or 1) - 1)
        study.tell(trial, math.log(seen.sample_s))


@pytest.mark.parametrize("name", SAMPLERS)
def test_proposals_lie_in_the_space_whatever_was_told(name: str, small_space: Space) -> None:
    study = study_of(small_space, name)
    for number in range(14):
        trial = ask(study, small_space)
        config = config_from(small_space, trial.params)
        assert holds(small_space, config)
        assert trial.params.keys() == small_space.choices.keys()
        if number % 4 == 3:
            tell(study, trial, Observation(config=config, outcome=Outcome.ERROR))
        elif number % 5 == 4:
            tell(study, trial, Observation(config=config, outcome=Outcome.OUT_OF_MEMORY, limit_bytes=8_000))
        else:
            tell(study, trial, observe(config))


@pytest.mark.parametrize("name", SAMPLERS)
def test_running_trials_of_others_do_no_harm(name: str, small_space: Space) -> None:
    study = study_of(small_space, name)
    for _ in range(3):
        trial = ask(study, small_space)
        tell(study, trial, observe(config_from(small_space, trial.params)))
    waiting = [ask(study, small_space) for _ in range(3)]
    assert all(holds(small_space, config_from(small_space, trial.params)) for trial in waiting)


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_sampler_finds_a_config_better_than_the_baseline(name: str, small_space: Space) -> None:
    study = study_of(small_space, name, seed=3)
    for _ in range(12):
        trial = ask(study, small_space)
        tell(study, trial, observe(config_from(small_space, trial.params)))
    assert study.best_value < math.log(observe(small_space.baseline).sample_s or math.nan) - 0.3


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_resumed_search_proposes_what_the_undisturbed_one_would(name: str, small_space: Space) -> None:
    undisturbed, cut = (study_of(small_space, name, seed=5) for _ in range(2))
    for number in range(13):
        if number in (0, 4, 12):  # at the start, while parameters are drawn, and when there is something to learn from
            interrupted = ask(cut, small_space)
            interrupted.set_user_attr("outcome", INTERRUPTED)
            cut.tell(interrupted, state=TrialState.FAIL)
            cut.sampler = study_of(small_space, name, seed=5).sampler
        trials = [ask(study, small_space) for study in (undisturbed, cut)]
        assert trials[0].params == trials[1].params
        for study, trial in zip((undisturbed, cut), trials, strict=True):
            tell(study, trial, observe(config_from(small_space, trial.params)))


@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize("batch_size", [32, 50])
def test_a_sampler_with_nothing_left_ends_cleanly(name: str, batch_size: int) -> None:
    """Also where trials that it did not propose were measured: of the baseline, in the space or beside it."""
    restricted = {"batch_size": [16, 32], "precision": ["fp32", "bf16"]}
    others = [option for option in OPTIONS if option not in restricted]
    space = make_space(accelerator_context(batch_size=batch_size), restricted=restricted, excluded=others)
    study = study_of(space, name)
    if holds(space, space.baseline):
        study.enqueue_trial(parameters(space, space.baseline))
        tell(study, ask(study, space), observe(space.baseline))
    else:
        tell(study, study.ask(), observe(space.baseline))
    configs = []
    for _ in range(8):
        trial = ask(study, space)
        configs.append(config_from(space, trial.params))
        tell(study, trial, observe(configs[-1]))
    assert all(holds(space, config) for config in configs)
    if name == "grid":
        left = 4 - (batch_size == 32)
        assert len(set(configs[:left])) == left
        assert space.baseline not in configs[:left]


def test_an_unknown_sampler_is_named_with_the_known_ones(small_space: Space) -> None:
    with pytest.raises(UsageError, match="structured, tpe, gp, random, grid"):
        make_sampler("best", small_space, 0)


def test_a_grid_too_large_to_list_is_refused() -> None:
    space = make_space(accelerator_context(), restricted={"batch_size": range(8, 257)})
    with pytest.raises(UsageError, match="too large"):
        make_sampler("grid", space, 0)


@pytest.mark.parametrize("seed", [-1, 2**40])
@pytest.mark.parametrize("name", SAMPLERS)
def test_any_whole_number_is_a_seed(name: str, seed: int, small_space: Space) -> None:
    study = study_of(small_space, name, seed)
    for _ in range(5):
        trial = ask(study, small_space)
        tell(study, trial, observe(config_from(small_space, trial.params)))
