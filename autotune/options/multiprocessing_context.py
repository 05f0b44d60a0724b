"""multiprocessing_context: how the loader's workers are started."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from autotune.options.base import Context, Effect, Inapplicable, Option, Value
from autotune.options.snippet import Snippet
from autotune.plan import Plan

METHODS = ("fork", "forkserver", "spawn")
START_S = {"fork": 0.05, "forkserver": 0.3, "spawn": 4.0}
"""seconds that an epoch's start takes with workers: a spawned one imports torch and the script again"""
MOST_EFFECT = 2.0  # log ratio; beyond it the method is out of the question anyway


class MultiprocessingContext(Option):
    name = "multiprocessing_context"
    help = "how loader workers are started; default leaves it to Python (fork, from 3.14 on forkserver)"
    default = "default"
    needs = "num_workers"
    affects = frozenset({"loader"})
    order = 25

    def choices(self, context: Context) -> Sequence[Value] | Inapplicable:
        facts, usual = context.facts, context.facts.start_method
        if facts.workers_refused:
            return Inapplicable(f"needs loader workers: {facts.workers_refused}")
        today = context.baseline.get(self.name, self.default)
        offered: list[Value] = [] if self._refused(usual, context) else [self.default]
        if usual != "fork":
            offered.append("fork")
        elif facts.threads and not self._refused("forkserver", context):
            offered.append("forkserver")  # a forked process has none of the threads, and may wait for them forever
        if today not in (self.default, *offered) and not self._refused(str(today), context):
            offered.append(today)
        if offered == [self.default]:
            if (refused := self._refused("spawn", context)) is not None:
                return Inapplicable(refused)
            return Inapplicable("fork starts workers fastest, and nothing here speaks against it", unless_asked=True)
        return tuple(offered)

    def refusal(self, value: Value, context: Context) -> str | None:
        return None if value == self.default else self._refused(str(value), context)

    def prior(self, value: Value, context: Context) -> Effect:
        facts = context.facts
        usual = START_S.get(facts.start_method, START_S["fork"])
        if value == self.default or facts.dataset_length is None:
            return Effect(sd=0.0 if value == self.default else 0.1)
        epoch_s = facts.dataset_length * max(facts.sample_compute_s, facts.sample_load_s / 2, 1e-6)
        longer = math.log((epoch_s + START_S[str(value)]) / (epoch_s + usual))
        return Effect(loader=max(-MOST_EFFECT, min(MOST_EFFECT, longer)), sd=0.1)

    def apply(self, value: Value, plan: Plan) -> None:
        if value == self.default:
            return
        plan.loader["multiprocessing_context"] = value
        if value == "forkserver":
            plan.switches.append(_preload_torch)

    def snippet(self, value: Value) -> Snippet:
        if value != "forkserver":
            return Snippet()
        return Snippet(
            imports=("import multiprocessing",),
            first='multiprocessing.set_forkserver_preload(["__main__", "torch"])  # imported once, not by each worker',
        )

    def check(self, value: Value) -> str | None:
        return None if value in (self.default, *METHODS) else f"takes {self.default}, {', '.join(METHODS)}"

    def _refused(self, method: str, context: Context) -> str | None:
        """Return why workers cannot be started by a method, or None."""
        if method in ("forkserver", "spawn"):
            return context.facts.fork_only
        return None


def _preload_torch() -> Callable[[], None]:
    """Let the fork server import torch once: its workers would each spend seconds on it."""
    import multiprocessing

    multiprocessing.set_forkserver_preload(["__main__", "torch"])
    return lambda: multiprocessing.set_forkserver_preload(["__main__"])
