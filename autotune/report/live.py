"""The live view of a search in a terminal."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from autotune.options import Value
from autotune.records import TrialRecord
from autotune.report.flags import NO_WARNING, explain, in_order
from autotune.report.progress import Current, Progress
from autotune.report.rows import Row
from autotune.search.forecast import NOTHING, Afterwards
from autotune.words.figures import duration, percent, roughly, rounded, significant
from autotune.words.text import clean, plain, sparkline

REDRAWS_PER_S = 4  # drawing takes from the cores that the trial is measured on
SHOWN_BEST = 5
SHOWN_FLAGS = 3
BAR_WIDTH = 40


class LiveView:
    """Redraws a few lines at the bottom of the terminal while trials run."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._state = Progress(clock)
        self._lock = threading.Lock()  # the screen is drawn by a thread of its own
        self._live: Live | None = None

    def begin(
        self, title_lines: Sequence[str], total_trials: int, timeout_s: float | None, after: Afterwards = NOTHING
    ) -> None:
        with self._lock:
            self._state.begin(title_lines, total_trials, timeout_s, after)
        if self._live is None:
            self._live = Live(
                console=self._console,
                get_renderable=self.render,
                refresh_per_second=REDRAWS_PER_S,
                transient=True,
            )
            self._live.start()

    def trial_started(self, number: int, label: str, config: Mapping[str, Value], differs: Mapping[str, Value]) -> None:
        with self._lock:
            self._state.trial_started(number, label, config, differs)

    def progress(self, message: Mapping[str, Any]) -> None:
        with self._lock:
            self._state.message(message)

    def trial_ended(self, record: TrialRecord, note: str = "") -> None:
        with self._lock:
            label = self._state.current.label if self._state.current is not None else ""
            self._state.trial_ended(record)
        if note and note != label:
            self.note(f"{'numerics guard' if record.numerics is not None else f'trial {record.number}'}: {note}")

    def note(self, text: str) -> None:
        self._console.print(plain(text))  # lands above the lines that are redrawn

    def finished(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def render(self) -> RenderableType:
        """Return the view as it stands now."""
        with self._lock:
            state = self._state
            parts: list[RenderableType] = [plain(line, "bold") for line in state.title_lines]
            parts.append(self._overall())
            if state.current is not None:
                parts.extend(self._current(state.current))
            if state.best:
                parts.append(self._best())
            parts.append(plain(self._counts(), "dim"))
            parts.extend(self._warnings())
            return Group(*parts)

    def _overall(self) -> RenderableType:
        state = self._state
        left = state.left_s()
        stage = f", {state.place()}" if state.windows or state.checks else ""
        told = f"{state.done}/{state.total} trials{stage}, {duration(state.elapsed_s())}"
        told += ", time left unknown" if left is None else f", about {roughly(left)} left"
        line = Table.grid(padding=(0, 1))
        line.add_column(ratio=1, max_width=BAR_WIDTH)
        line.add_column(no_wrap=True)
        line.add_row(ProgressBar(total=1.0, completed=state.share_done(), width=BAR_WIDTH // 2), plain(told))
        return line

    def _current(self, current: Current) -> list[RenderableType]:
        head = Text(f"trial {current.number} ", style="bold")
        if current.label not in ("", "trial", current.differs):
            head.append(f"({current.label}) ")
        head.append(current.differs, style="cyan")
        drawn = sparkline(current.sample_s, ascii_only=self._console.options.ascii_only)
        line = Text(f"  {current.phase}")
        if drawn:
            line.append(f"  {drawn}", style="green")
            line.append(f"  {significant(1 / current.sample_s[-1], 2)} samples/s in the last block")
        return [head, line]

    def _best(self) -> RenderableType:
        table = Table.grid(padding=(0, 1))
        table.add_column(justify="right", no_wrap=True)
        table.add_column(justify="right", no_wrap=True)
        table.add_column(no_wrap=True, style="dim")
        table.add_column(overflow="fold")
        for row in self._state.best[:SHOWN_BEST]:
            table.add_row(
                plain(f"{row.rank}."),
                plain(f"{_samples_per_s(row)} samples/s"),
                plain(f"±{percent(row.uncertainty or 0.0)}"),
                plain(self._state.differs(row)),
                style="bold" if row.rank == 1 else "",
            )
        return Group(plain("best so far (screening, single runs)"), table)

    def _counts(self) -> str:
        outcomes = self._state.outcomes
        return "ended: " + (
            ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in outcomes.items()) or "none"
        )

    def _warnings(self) -> list[Text]:
        flags = self._state.flags
        most = sorted((flag for flag in in_order(flags) if flag not in NO_WARNING), key=lambda flag: -flags[flag])[
            :SHOWN_FLAGS
        ]
        return [plain(f"{flags[flag]} of {self._state.ended}: {clean(explain(flag))}", "yellow") for flag in most]


def _samples_per_s(row: Row) -> str:
    value = row.samples_per_s
    return "" if value is None else rounded(value, value * (row.uncertainty or 0.0))
