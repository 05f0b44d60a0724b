"""Looks at a workload from the steering process: each in a child process of its own, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from autotune.documents import from_plain
from autotune.errors import AutotuneError, WorkloadError
from autotune.machine import available_bytes
from autotune.records import Limits, Outcome, Source, TrialSpec
from autotune.search.setup import HOST_SHARE, refusal
from autotune.trials.folder import RunFolder
from autotune.trials.runner import Report, Runner, silent

T = TypeVar("T")
TIMEOUT_S = 600.0
WINDOW_S = 6.0


@dataclass(frozen=True, kw_only=True)
class Seen(Generic[T]):
    """What one look came to: a result, or the error that says why there is none."""

    outcome: Outcome
    result: T | None
    error: AutotuneError


class Look:
    """Runs the looks of one command at one workload."""

    def __init__(
        self,
        source: Source,
        folder: RunFolder,
        runner: Runner,
        *,
        device: str = "",
        seed: int = 0,
        report: Report = silent,
    ) -> None:
        """Prepare looks.

        Raises:
            WorkloadError: the script has no workload, and steps cannot be looked into.
        """
        if source.unmodified:
            raise WorkloadError(
                f"{Path(source.script).name} has no workload, and this looks into the training step itself",
                hint="Give it a Workload, or functions build_model() and build_dataset() (see the README), or name "
                "yours: --model make_net --dataset load_data",
            )
        self._source, self._folder, self._runner = source, folder, runner
        self._device, self._seed, self._report = device, seed, report
        self._looks = 0

    def at(self, kind: type[T], name: str, config: Mapping[str, Any], baseline: Mapping[str, Any]) -> T:
        """Return what a look called `name` finds.

        Raises:
            ScriptError: the user's code failed; carries its traceback.
            AutotuneError: it cannot be looked at, and why.
        """
        found = self.attempt(kind, name, config, baseline)
        if found.result is None:
            raise found.error
        return found.result

    def attempt(
        self, kind: type[T], name: str, config: Mapping[str, Any], baseline: Mapping[str, Any] | None = None
    ) -> Seen[T]:
        """Return what a look called `name` comes to, failures included."""
        number, self._looks = self._looks, self._looks + 1
        spec = TrialSpec(
            number=number,
            kind=name,
            config=dict(config),
            baseline=dict(baseline or {}),
            source=self._source,
            device=self._device,
            limits=Limits(
                host_bytes=int(HOST_SHARE * available_bytes()),
                timeout_s=TIMEOUT_S,
                budget_s=WINDOW_S,
                budget_max_s=5 * WINDOW_S,
            ),
            record_path=str(self._folder.record(number).resolve()),
            seed=self._seed,
        )
        log = self._folder.log(number)
        record = self._runner.run(spec, log, self._report)
        if record.outcome is Outcome.OK and record.diagnosis is not None:
            return Seen(outcome=record.outcome, result=from_plain(kind, record.diagnosis), error=_NONE)
        return Seen(outcome=record.outcome, result=None, error=refusal(record, self._source, Path(log)))


_NONE = AutotuneError("nothing failed")
