"""What a search tells whoever shows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from autotune.config import Config
from autotune.options.base import Value
from autotune.records import TrialRecord
from autotune.search.forecast import NOTHING, Afterwards


class Events(Protocol):
    """A listener: the live view, plain lines, or nothing."""

    def begin(
        self, title_lines: Sequence[str], total_trials: int, timeout_s: float | None, after: Afterwards = NOTHING
    ) -> None:
        """A search begins; `after` says what follows its trials."""

    def trial_started(self, number: int, label: str, config: Config, differs: Mapping[str, Value]) -> None:
        """A trial begins; `differs` is what it changes against the baseline."""

    def progress(self, message: Mapping[str, Any]) -> None:
        """The running trial says where it is: {"phase": ..., figures}."""

    def trial_ended(self, record: TrialRecord, note: str) -> None:
        """A trial ended."""

    def note(self, text: str) -> None:
        """Something that people should know."""

    def finished(self) -> None:
        """The search is over, or was interrupted."""
