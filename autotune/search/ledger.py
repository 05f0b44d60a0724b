"""The Optuna study of a search: what is asked, what is told, and what a resumed search finds in it."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import optuna
from optuna.samplers import BaseSampler
from optuna.storages import RDBStorage
from optuna.trial import TrialState

from autotune.config import Config
from autotune.errors import RunFolderError
from autotune.options.space import Space
from autotune.records import Outcome, TrialRecord
from autotune.search.dashboard import annotate, annotate_study, constrain
from autotune.search.observation import ATTRIBUTE, Observation
from autotune.search.samplers.distributions import config_from, distributions, holds, parameters
from autotune.search.samplers.stateless import Reseeded

METRIC = "seconds per sample"
CONSTRAINT = "memory"
VIOLATED = 0.5  # of a trial that ran out of memory, whose peak nobody knows: clearly over, and of a finite size

LOCKED_S = 60.0  # for which a locked SQLite file is waited for; the driver's own 5 s end a search for a look at it

logging.getLogger("optuna").setLevel(logging.WARNING)

UNUSABLE = (
    "Is the disk full, or may files not grow (ulimit -f)? If the file is damaged: --force starts anew, "
    "--out OTHER_FOLDER beside it."
)
NOT_THERE = (
    "--storage takes the URL of a database, as sqlite:///FILE in a folder that exists, or postgresql://USER@HOST/NAME "
    "where the driver is installed."
)


class Ledger:
    """One study over a fixed space."""

    def __init__(self, space: Space, sampler: BaseSampler, storage: str | None, name: str = "autotune") -> None:
        """Open the study called `name`, or make it; without a storage it is kept in memory.

        Raises:
            RunFolderError: the storage cannot be used.
        """
        self._space = space
        self._distributions = distributions(space)
        self._by_parameters = isinstance(sampler, Reseeded) and bool(self._distributions)
        with _opening(storage):
            self.study = optuna.create_study(
                study_name=name,
                storage=None if storage is None else _storage(storage),
                sampler=sampler,
                direction="minimize",
                load_if_exists=True,
            )
            self.study.set_metric_names([METRIC])
            annotate_study(self.study, space.baseline)
            for _, seen in self.observations():  # what every later question rests on
                seen.check()

    def ask(self) -> tuple[optuna.Trial, Config]:
        """Let the sampler propose; return the trial and the canonical config that it stands for."""
        trial = self.study.ask(self._distributions)
        return trial, config_from(self._space, trial.params)

    def ask_for(self, config: Config) -> optuna.Trial:
        """Return a trial for a config of our own choice; one that lies beside the space has no parameters."""
        if not holds(self._space, config):
            return self.study.ask()
        self.study.enqueue_trial(parameters(self._space, config))
        return self.study.ask(self._distributions)

    def tell(self, trial: optuna.Trial, record: TrialRecord, seen: Observation) -> None:
        """Store an outcome in the way that every sampler understands.

        Over the limit but measured: COMPLETE with the violated constraint. Out of memory: PRUNED with a violated
        constraint, since samplers ignore FAIL and a made-up value would mislead them. Anything else: FAIL; and so is
        what lies beside the space, where the sampler learns from parameters: those that all trials have in common.
        """
        self.describe(trial, seen.config, record.kind)
        trial.set_user_attr("outcome", record.outcome.value)
        if record.failure is not None:
            trial.set_user_attr("reason", record.failure.reason)
        if record.measurement is not None:
            trial.set_user_attr("flags", list(record.measurement.flags))
            trial.set_user_attr("samples_per_s", round(record.measurement.samples_per_s, 3))
        trial.set_user_attr(ATTRIBUTE, seen.to_dict())
        constrain(trial, CONSTRAINT, _violation(seen))
        annotate(trial, record, seen, self._space.baseline)
        if self._by_parameters and not trial.params:
            self.study.tell(trial, state=TrialState.FAIL)
        elif record.outcome.measured and seen.sample_s is not None:
            self.study.tell(trial, seen.sample_s)
        elif record.outcome is Outcome.OUT_OF_MEMORY:
            self.study.tell(trial, state=TrialState.PRUNED)
        else:
            self.study.tell(trial, state=TrialState.FAIL)

    def tell_again(self, trial: optuna.Trial, config: Config, known: Observation) -> None:
        """Answer a proposal that was measured before with what is known: nothing runs, nothing is counted."""
        self.describe(trial, config, "duplicate")
        constrain(trial, CONSTRAINT, _violation(known))
        if known.sample_s is not None:
            self.study.tell(trial, known.sample_s)
        else:
            self.study.tell(trial, state=TrialState.PRUNED)

    def give_up(self, trial: optuna.Trial, why: str) -> None:
        """Close a trial that was interrupted."""
        trial.set_user_attr("outcome", why)
        self.study.tell(trial, state=TrialState.FAIL)

    def running(self) -> list[optuna.Trial]:
        """Return the trials that an earlier process left running."""
        found = self.study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
        return [optuna.Trial(self.study, trial._trial_id) for trial in found]

    def take_waiting(self) -> list[optuna.Trial]:
        """Return the trials that an earlier process put in the queue and did not live to begin."""
        waiting = self.study.get_trials(deepcopy=False, states=(TrialState.WAITING,))
        return [self.study.ask() for _ in waiting]

    def numbers(self) -> set[int]:
        """Return the numbers of all its trials."""
        return {trial.number for trial in self.study.get_trials(deepcopy=False)}

    def observations(self) -> list[tuple[int, Observation]]:
        """Return what was told so far, by trial number."""
        return [
            (trial.number, Observation.from_dict(trial.user_attrs[ATTRIBUTE]))
            for trial in self.study.get_trials(deepcopy=False)
            if ATTRIBUTE in trial.user_attrs
        ]

    def describe(self, trial: optuna.Trial, config: Config, kind: str) -> None:
        """Store what a trial is, in words that optuna-dashboard shows."""
        values: dict[str, Any] = dict(config)
        trial.set_user_attr("config", values)
        trial.set_user_attr("kind", kind)


def make_room(storage: str, name: str, *, force: bool) -> None:
    """See to it that no other search's study of this name is in the storage: its trials would steer this one.

    Args:
        force: remove a study that is there.

    Raises:
        RunFolderError: there is one and it is not to be removed, or the storage cannot be used.
    """
    with _opening(storage, NOT_THERE):
        opened = _storage(storage)
        there = name in optuna.get_all_study_names(opened)
        if there and force:
            optuna.delete_study(study_name=name, storage=opened)
    if there and not force:
        raise RunFolderError(
            f"{storage} holds an earlier search of the same workload, machine and space: {name}",
            hint="Go on with it: --resume and its folder. Replace it: --force. Keep both: another storage.",
        )


@contextmanager
def _opening(storage: str | None, hint: str = UNUSABLE) -> Iterator[None]:
    """Turn whatever goes wrong with a storage into an error that says so."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            yield
    except Exception as error:  # SQLAlchemy, the database's driver and Optuna each have their own
        raise RunFolderError(
            f"cannot open the study at {storage}: {root_cause(error)}",
            hint=hint,
        ) from error


def _storage(name: str) -> str | RDBStorage:
    """Return the storage; a SQLite file that somebody else has locked, a dashboard say, is waited for."""
    if not name.startswith("sqlite:"):
        return name
    return RDBStorage(name, engine_kwargs={"connect_args": {"timeout": LOCKED_S}})


def _violation(seen: Observation) -> float:
    if seen.outcome is Outcome.OUT_OF_MEMORY:
        return VIOLATED
    if seen.peak_bytes is None or not seen.limit_bytes:
        return 0.0
    return seen.peak_bytes / seen.limit_bytes - 1


def root_cause(error: BaseException) -> str:
    """Return in one line what a storage failed on: Optuna and SQLAlchemy wrap the database's own words."""
    while error.__cause__ is not None:
        error = error.__cause__
    text = str(error).strip().splitlines()
    return text[0] if text else type(error).__name__
