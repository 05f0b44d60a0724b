"""What a study's trials tell a sampler."""

from __future__ import annotations

from dataclasses import dataclass

from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from autotune.config import Config
from autotune.options.space import Space
from autotune.search.observation import ATTRIBUTE, INTERRUPTED, Observation, counting
from autotune.search.samplers.distributions import config_from


@dataclass(frozen=True)
class History:
    """Trials in the order of their numbers."""

    seen: list[Observation]
    running: list[Config]
    """in other workers' hands"""

    def before(self, number: int) -> History:
        """Return what was known after the first `number` outcomes."""
        return History(self.seen[:number], [])

    @property
    def configs(self) -> list[Config]:
        return [*(trial.config for trial in self.seen), *self.running]


def read_history(study: Study, space: Space, current: FrozenTrial | None = None) -> History:
    """Read the outcomes and the running trials; `current` is the trial that is being proposed.

    A trial without a stored observation taught nothing: it was interrupted, or belongs to someone else.
    """
    seen: list[Observation] = []
    running: list[Config] = []
    for trial in study.get_trials(deepcopy=False):
        if current is not None and trial.number == current.number:
            continue
        if ATTRIBUTE in trial.user_attrs:
            seen.append(Observation.from_dict(trial.user_attrs[ATTRIBUTE]))
        elif trial.state is TrialState.RUNNING and trial.params.keys() == space.choices.keys():
            running.append(config_from(space, trial.params))
    return History(counting(seen), running)


def progress(study: Study, current: FrozenTrial) -> tuple[int, int]:
    """Return how many trials were answered and how many others run: an undisturbed search would count the same."""
    others = [trial for trial in study.get_trials(deepcopy=False) if trial.number != current.number]
    running = sum(trial.state is TrialState.RUNNING for trial in others)
    answered = sum(trial.state.is_finished() and trial.user_attrs.get("outcome") != INTERRUPTED for trial in others)
    return answered, running
