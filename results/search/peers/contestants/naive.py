"""How people time a config by hand: some steps to warm up, some steps by the clock, in the process they are in."""

from __future__ import annotations

import time
from typing import Any

from task import Task

WARMUP_STEPS, TIMED_STEPS = 5, 20
PATIENCE_S = 10.0  # nobody watches twenty steps of a minute each: then fewer count


class OutOfMemory(Exception):
    """The config does not fit."""


def samples_per_s(task: Task, workload: Any, config: dict[str, Any]) -> float:
    """Time training steps of a config.

    Raises:
        OutOfMemory: it does not fit.
    """
    try:
        return _samples_per_s(task, workload, config)
    except (RuntimeError, MemoryError) as error:
        if isinstance(error, MemoryError) or "can't allocate memory" in str(error) or "out of memory" in str(error):
            raise OutOfMemory from error
        raise


def _samples_per_s(task: Task, workload: Any, config: dict[str, Any]) -> float:
    from autotune import Config, Tuned  # carries the options out, as the example's own loop does

    with Tuned(Config(**{**task.baseline, **config}), checkpoint_blocks=workload.checkpoint_blocks) as tuned:
        model = tuned.model(workload.model())
        optimizer = tuned.optimizer(workload.optimizer, model.parameters())
        loader = tuned.loader(workload.dataset(), shuffle=True)
        steps, samples, timed, began = 0, 0, False, time.perf_counter()
        while True:
            for inputs, target in loader:
                with tuned.autocast():
                    loss = workload.loss(model(inputs), target)
                tuned.backward(loss)
                tuned.step(optimizer)
                steps, samples = steps + 1, samples + len(target)
                impatient = time.perf_counter() - began > PATIENCE_S
                if not timed and (steps >= WARMUP_STEPS or impatient):
                    loss.item()  # waits for an accelerator
                    steps, samples, timed, began = 0, 0, True, time.perf_counter()
                elif timed and (steps >= TIMED_STEPS or impatient or task.left_s() < 0):
                    loss.item()
                    return samples / (time.perf_counter() - began)
