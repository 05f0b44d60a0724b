"""Where a search is: the trials so far, the current one, the best ones. No screen in here."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import mean
from typing import Any

from autotune.config import Config
from autotune.options import Value
from autotune.records import NOT_SCREENING, REPEAT, TrialRecord
from autotune.report.rows import Row, rows_of
from autotune.search.forecast import NOTHING, STAGES, Afterwards, expected_checks, expected_windows
from autotune.search.verification.windows import AGAIN
from autotune.words.text import clean, values_text

MAX_BLOCKS = 200


@dataclass
class Current:
    """The trial that runs now."""

    number: int
    label: str
    differs: str
    began_s: float
    phase: str = "start"
    sample_s: list[float] = field(default_factory=list)
    """of its blocks, the latest ones"""


class Progress:
    """What both views know of a search. `clock` gives seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.title_lines: tuple[str, ...] = ()
        self.total = 0
        self.done = 0
        """trials of this stage that have ended"""
        self.windows = 0
        """of a verification that follows the stage's trials"""
        self.checks = 0
        """of the numerics guard"""
        self.ended = 0
        """of all stages"""
        self.timeout_s: float | None = None
        self.began_s = clock()
        self.current: Current | None = None
        self.outcomes: Counter[str] = Counter()
        self.flags: Counter[str] = Counter()
        self.best: list[Row] = []
        """ranked rows, the best first"""
        self._searched = False
        self._checked = False
        """whether what ended last was a check"""
        self._records: list[TrialRecord] = []
        self._differs: dict[Config, str] = {}
        self._walls_s: list[float] = []
        """of the trials of this stage"""
        self._after = NOTHING
        self._stages: Counter[str] = Counter()
        """windows of the verification that have ended, by its own stages"""
        self._window_walls_s: list[float] = []
        self._check_walls_s: list[float] = []

    def begin(
        self, title_lines: Sequence[str], total: int, timeout_s: float | None, after: Afterwards = NOTHING
    ) -> None:
        self._after = after
        self._stages.clear()
        self.title_lines = tuple(clean(line) for line in title_lines)
        self.total, self.done, self.windows, self.timeout_s = total, 0, 0, timeout_s
        self._searched = False
        self.began_s = self._clock()
        self._walls_s.clear()  # another stage's trials take another time
        self.current = None

    def trial_started(self, number: int, label: str, config: Mapping[str, Value], differs: Mapping[str, Value]) -> None:
        told = values_text(differs) or "baseline"
        self._differs[Config(**config)] = told
        self.current = Current(number, clean(label), told, self._clock())

    def message(self, message: Mapping[str, Any]) -> None:
        """Take a message of the child, which may hold anything at all."""
        current = self.current
        if current is None:
            return
        phase = message.get("phase")
        if isinstance(phase, str):
            current.phase = clean(phase)
        sample_s = message.get("sample_s")
        if isinstance(sample_s, float | int) and sample_s > 0:
            current.sample_s.append(float(sample_s))
            del current.sample_s[:-MAX_BLOCKS]

    def trial_ended(self, record: TrialRecord) -> Row:
        """Take a record; return its row, of this run alone."""
        label = "" if self.current is None else self.current.label
        again = label.endswith(AGAIN)
        self._searched = self._searched or record.kind not in NOT_SCREENING
        self._checked = record.kind == "numerics"
        if self._checked:
            self.checks += 1
            self._check_walls_s.append(record.wall_s)
        elif self._searched and record.kind == "verification":
            self.windows += 1
            self._window_walls_s.append(record.wall_s)
            self._stages[label.partition(" ")[0]] += not again
        else:
            self.done += not again and record.kind != REPEAT  # as many as asked for are made all the same
            self._walls_s.append(record.wall_s)
        self.ended += 1
        self.current = None
        self._records.append(record)
        row = self._rows([record], screening=False)[0]
        if not self._checked:
            outcome = "over limit" if row.measured and row.fits is False else record.outcome.value
            self.outcomes[outcome] += 1
        self.flags.update(row.flags)
        if record.kind not in NOT_SCREENING:
            ranked = [row for row in self._rows(self._records) if row.rank is not None]
            self.best = sorted(ranked, key=lambda row: row.rank or 0)
        return row

    def differs(self, row: Row) -> str:
        """Return what differs from the baseline in a row's config, as the search said."""
        return self._differs.get(row.config, values_text(row.config))

    def elapsed_s(self) -> float:
        return self._clock() - self.began_s

    def place(self) -> str:
        """Return how far the stage is: "7/24", or "window 3" of a verification, "check 1" of the numerics guard."""
        if self._checked:
            return f"check {self.checks}"
        return f"window {self.windows}" if self.windows else f"{self.done}/{self.total}"

    def tally(self, total: str = "") -> str:
        """Return what has ended: "7/24 trials", and the windows of the verification where there are some."""
        told = f"{self.done}{total} {'trial' if self.done == 1 and not total else 'trials'}"
        if not self.windows:
            return told
        return f"{told}, {self.windows} {'window' if self.windows == 1 else 'windows'} of the verification"

    def left_s(self) -> float | None:
        """Return the seconds that everything may still take, what follows the trials included; None: nobody knows.

        Without a trial to go by, that is what the time limit leaves.
        """
        limit = None if self.timeout_s is None else max(0.0, self.timeout_s - self.elapsed_s())
        if not self._walls_s:
            return limit
        # what was disturbed is measured twice, and counts once
        trial_s = sum(self._walls_s) / max(1, self.done)
        counted = sum(self._stages.values())
        window_s = sum(self._window_walls_s) / counted if counted else self._expected_window_s(trial_s)
        check_s = mean(self._check_walls_s) if self._check_walls_s else window_s
        checks, windows = self._left_over()
        trials = 0 if self.checks or self.windows else max(0, self.total - self.done)
        left = trials * trial_s + checks * check_s + windows * window_s
        if self.current is not None:
            expected = trial_s if trials else window_s
            left -= min(expected, left, self._clock() - self.current.began_s)
        return left if limit is None else min(left, limit)

    def share_done(self) -> float:
        """Return how much of the whole has passed, by time."""
        left, passed = self.left_s(), self.elapsed_s()
        if left is None or not self._walls_s:
            return 0.0
        return passed / (passed + left) if passed + left > 0 else 0.0

    def _left_over(self) -> tuple[int, int]:
        """Return how many checks of the guard and windows of the verification are expected to come."""
        baseline = next((Config(**record.config) for record in self._records if record.kind == "baseline"), None)
        if baseline is None:
            return 0, 0
        ranked = {row.config: row.sample_s or 0.0 for row in self.best}
        more = self.done < self.total and not (self.checks or self.windows)
        expected = expected_windows(self._after, baseline, ranked, more_trials=more)
        reached = max((STAGES.index(stage) for stage in self._stages if stage in STAGES), default=0)
        windows = sum(max(0, expected[stage] - self._stages[stage]) for stage in STAGES[reached:])
        checks = 0 if self.windows else max(0, expected_checks(self._after, baseline, ranked) - self.checks)
        return checks, windows

    def _expected_window_s(self, trial_s: float) -> float:
        """Return the time of a window before there was one: a trial's, without the phases that a window leaves out."""
        found = [item for item in self._records if item.measurement is not None]
        left_out_s = mean(item.phases.cached_s for item in found) if found else 0.0
        return max(0.0, trial_s - left_out_s)

    def _rows(self, records: Sequence[TrialRecord], screening: bool = True) -> list[Row]:
        if not screening:
            records = [replace(record, kind="trial") for record in records]
        # an accelerator's allocator always holds something once a step has run
        found = [record.measurement for record in records if record.measurement is not None]
        accelerator = any(item.lifetime.reserved or item.lifetime.allocated for item in found)
        return rows_of(records, baseline=Config(), accelerator=accelerator)
