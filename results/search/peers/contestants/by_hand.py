"""Coordinate descent by hand, from the usual advice: expert settings, the largest batch that still helps, then one
option at a time, each timed naively and kept where it is faster."""

from __future__ import annotations

from typing import Any

from task import Final, Task

from contestants.naive import OutOfMemory, samples_per_s

NEED_WORKERS = ("prefetch_factor", "persistent_workers")


def tune(task: Task) -> Final:
    workload = task.module().workload
    config = {**task.expert, "batch_size": task.baseline["batch_size"]}
    rate = samples_per_s(task, workload, config)
    tried = 1

    def better(changed: dict[str, Any]) -> bool:
        """Time a config; take it up where it is faster."""
        nonlocal config, rate, tried
        tried += 1
        try:
            found = samples_per_s(task, workload, changed)
        except OutOfMemory:
            return False
        if task.left_s() < 0 or found <= rate:
            return False
        config, rate = changed, found
        task.so_far(final())
        return True

    def final() -> Final:
        return Final(config=config, own_claim=f"{rate:.0f} samples/s, best of {tried} timings")

    task.so_far(final())
    sizes = task.choices.get("batch_size", [])
    # doubled as long as it fits and pays
    while (size := 2 * config["batch_size"]) in sizes and better({**config, "batch_size": size}):
        pass
    for name, values in task.choices.items():
        for value in values:
            known = name == "batch_size" or value == config.get(name, task.baseline.get(name))
            idle = name in NEED_WORKERS and not config.get("num_workers")
            if not known and not idle and task.left_s() > 0:
                better({**config, name: value})
    return final()
