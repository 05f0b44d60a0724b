"""One search over a table: the tool's own loop with a sampler, and how good its answer is after each trial."""

from __future__ import annotations

import contextlib
import math
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from samplers import sampler_for
from table import Table, TableRunner

from autotune.config import Config
from autotune.errors import DoesNotFit, SearchFailed
from autotune.records import Outcome, TrialRecord
from autotune.search.ledger import Ledger
from autotune.search.loop import Search
from autotune.search.model.belief import Belief
from autotune.search.observation import Observation
from autotune.search.setup import Wishes
from autotune.search.verification import THOROUGH, finalists
from autotune.trials.folder import RunFolder

FIRST_PREDICTION = 3  # trials before the peak of the next one must be foreseen


class Quiet:
    """Hears the search and says nothing."""

    def begin(self, title_lines: Sequence[str], total_trials: int, timeout_s: float | None, after: Any) -> None: ...
    def trial_started(self, number: int, label: str, config: Config, differs: Mapping[str, Any]) -> None: ...
    def progress(self, message: Mapping[str, Any]) -> None: ...
    def trial_ended(self, record: TrialRecord, note: str) -> None: ...
    def note(self, text: str) -> None: ...
    def finished(self) -> None: ...


@dataclass(frozen=True, kw_only=True)
class Played:
    """One search. The lists hold one figure a trial."""

    regret: list[float]
    """of the config chosen after that trial: its time above the best of the table, relative; inf: nothing chosen"""
    seconds: list[float]
    """wall time of the trials so far"""
    over: list[int]
    """numbers of the trials, from 1, that were over the memory limit"""
    peak_errors: list[float]
    """|ln(predicted peak / measured)| of each trial from the fourth on, predicted before it was made"""


def play(table: Table, sampler_name: str, seed: int, trials: int, limit_bytes: int | None, peaks: bool) -> Played:
    """Search the table.

    Args:
        limit_bytes: memory limit; None is what the table was measured under.
        peaks: whether to predict the peak of each trial beforehand.
    """
    prepared = table.prepared(limit_bytes)
    wishes = Wishes(trials=trials, seed=seed, sampler=sampler_name)
    runner = TableRunner(table, prepared.limits, seed)
    with tempfile.TemporaryDirectory() as scratch, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Optuna's: experimental classes, parameters sampled one by one
        folder = RunFolder(Path(scratch))
        folder.create()
        sampler = sampler_for(sampler_name, table.space, seed, trials)
        ledger = Ledger(table.space, sampler, None)
        search = Search(prepared, wishes, ledger, folder, runner, Quiet())
        with contextlib.suppress(DoesNotFit, SearchFailed):  # what was measured is scored all the same
            search.run()
        seen = [item for _, item in ledger.observations()]
    best = table.best(math.inf if limit_bytes is None else limit_bytes)
    prefixes = [seen[: number + 1] for number in range(len(seen))]
    return Played(
        regret=[_regret(table, runner, prefix, best) for prefix in prefixes],
        seconds=np.cumsum([item.cost_s for item in seen]).tolist(),
        over=[number for number, item in enumerate(seen, 1) if item.outcome is Outcome.OUT_OF_MEMORY],
        peak_errors=_peak_errors(table, seen) if peaks else [],
    )


def _regret(table: Table, runner: TableRunner, seen: list[Observation], best: float) -> float:
    """Choose as the tool does, the finalists measured again in a few rounds, and return the regret of the choice."""
    chosen = finalists(seen, keeps_batch=lambda config: False)
    if not chosen:
        return math.inf
    again = {config: runner.time(config, THOROUGH.choose_rounds) for config in chosen}
    return table.time[min(again, key=lambda config: again[config])] / best - 1


def _peak_errors(table: Table, seen: list[Observation]) -> list[float]:
    found = []
    for number in range(FIRST_PREDICTION, len(seen)):
        known, following = seen[:number], seen[number]
        if not any(item.outcome.measured for item in known) or not table.peak(following.config):
            continue
        belief = Belief(table.space, known, beside=[following.config])
        if belief.memory is not None:
            mean, _ = belief.memory.predict(belief.encoding.rows([following.config]))
            found.append(abs(float(mean[0]) - math.log(table.peak(following.config))))
    return found
