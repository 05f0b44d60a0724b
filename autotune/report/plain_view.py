"""The view without a terminal: one line a trial, plain text, no escapes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rich.console import Console

from autotune.options import Value
from autotune.records import TrialRecord
from autotune.report.columns import OUTCOMES
from autotune.report.progress import Progress
from autotune.report.rows import Row
from autotune.search.forecast import NOTHING, Afterwards
from autotune.words.figures import duration, memory, percent, rounded
from autotune.words.text import clean, plain


class PlainView:
    """Prints a line when a trial has ended."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._state = Progress(clock)
        self._label = self._differs = ""
        self._over = True  # nothing has begun

    def begin(
        self, title_lines: Sequence[str], total_trials: int, timeout_s: float | None, after: Afterwards = NOTHING
    ) -> None:
        self._over = False
        self._state.begin(title_lines, total_trials, timeout_s, after)
        for line in title_lines:
            self._print(line)

    def trial_started(self, number: int, label: str, config: Mapping[str, Value], differs: Mapping[str, Value]) -> None:
        self._state.trial_started(number, label, config, differs)
        current = self._state.current
        assert current is not None
        self._label, self._differs = current.label, current.differs

    def progress(self, message: Mapping[str, Any]) -> None:
        self._state.message(message)

    def trial_ended(self, record: TrialRecord, note: str = "") -> None:
        row = self._state.trial_ended(record)
        what = self._differs if self._label in ("", "trial", self._differs) else f"{self._label}: {self._differs}"
        parts = [f"[{self._state.place()}] trial {record.number}, {what}: {_result(record, row)}"]
        if row.flags:
            parts.append(f"flags: {' '.join(row.flags)}")
        if note and note != self._label and record.numerics is None:
            parts.append(note)
        self._print("; ".join(parts))

    def note(self, text: str) -> None:
        self._print(text)

    def finished(self) -> None:
        if self._over:
            return
        self._over = True
        counts = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in self._state.outcomes.items())
        self._print(f"{self._state.tally()} in {duration(self._state.elapsed_s())}: {counts or 'none'}")

    def _print(self, text: str) -> None:
        for line in clean(text).splitlines():
            self._console.print(plain(line), soft_wrap=True, highlight=False)


def _result(record: TrialRecord, row: Row) -> str:
    return result_text(row) if record.numerics is None else record.numerics.short


def result_text(row: Row) -> str:
    """Return what came of one run, in a few words: "1234 samples/s (±2.1 % within the run), peak 306 MiB"."""
    if row.samples_per_s is None:
        return OUTCOMES[row.outcome] + (f" ({row.reason})" if row.reason else "")
    uncertainty = row.uncertainty or 0.0
    text = f"{rounded(row.samples_per_s, row.samples_per_s * uncertainty)} samples/s"
    text += f" (±{percent(uncertainty)} within the run)"
    if row.peak_bytes is not None:
        text += f", peak {memory(row.peak_bytes)}"
    return text + (", over the memory limit" if row.fits is False else "")
