"""What a running search shows: the calls it makes, and the choice between a live view and plain lines."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from rich.console import Console

from autotune.options import Value
from autotune.records import TrialRecord
from autotune.search.forecast import NOTHING, Afterwards


class View(Protocol):
    """Anything that a search can tell of its trials. Calls come from one thread, in this order."""

    def begin(
        self, title_lines: Sequence[str], total_trials: int, timeout_s: float | None, after: Afterwards = NOTHING
    ) -> None:
        """Start a stage of so many trials, and of what follows them."""

    def trial_started(self, number: int, label: str, config: Mapping[str, Value], differs: Mapping[str, Value]) -> None:
        """A trial begins. `label` says what it is for ("baseline", "largest batch"); `differs`: from the baseline."""

    def progress(self, message: Mapping[str, Any]) -> None:
        """The trial says where it is: {"phase": "window", "block": 7, "sample_s": 0.0021}."""

    def trial_ended(self, record: TrialRecord, note: str = "") -> None:
        """It has ended; `note` is what the search thinks of it."""

    def note(self, text: str) -> None:
        """Something that people should read now."""

    def finished(self) -> None:
        """The search is over, or was stopped; may be called twice."""


def make_view(console: Console, environ: Mapping[str, str] | None = None) -> View:
    """Return a live view for people at a terminal, and plain lines for pipes, logs and CI."""
    from autotune.report.live import LiveView
    from autotune.report.plain_view import PlainView

    environ = os.environ if environ is None else environ
    if console.is_interactive and not environ.get("CI"):
        return LiveView(console)
    return PlainView(console)
