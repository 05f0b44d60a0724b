"""A plain Optuna study with TPE, as a user would write it over the same options."""

from __future__ import annotations

from typing import Any

import optuna
from task import Final, Task

from contestants.naive import OutOfMemory, samples_per_s


def tune(task: Task) -> Final:
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    workload = task.module().workload
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=task.seed))
    study.enqueue_trial({name: task.baseline.get(name, values[0]) for name, values in task.choices.items()})

    def objective(trial: optuna.Trial) -> float:
        config: dict[str, Any] = {
            name: trial.suggest_categorical(name, values) for name, values in task.choices.items()
        }
        try:
            return samples_per_s(task, workload, config)
        except OutOfMemory:
            raise optuna.TrialPruned from None

    def keep(study: optuna.Study, trial: optuna.trial.FrozenTrial) -> None:
        if task.left_s() > 0 and any(item.value is not None for item in study.trials):
            task.so_far(_final(study))

    study.optimize(objective, timeout=max(0.0, task.left_s()), callbacks=[keep])
    return _final(study)


def _final(study: optuna.Study) -> Final:
    done = len(study.trials)
    return Final(config=study.best_params, own_claim=f"{study.best_value:.0f} samples/s, best of {done} trials")
