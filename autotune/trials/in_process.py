"""A runner in this process, for debuggers: breakpoints in the user's code work, limits are not enforced."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

from autotune.documents import read_record, to_json
from autotune.records import TrialRecord, TrialSpec
from autotune.trials.folder import write_atomically
from autotune.trials.runner import Report, silent


class InProcessRunner:
    """Runs each trial here, one after the other: memory peaks are those of all trials so far."""

    def run(self, spec: TrialSpec, log: Path, report: Report = silent) -> TrialRecord:
        from autotune.trials.child import run_trial  # imports torch, which the steering process else never does

        started_at, began = time.time(), time.perf_counter()
        run_trial(to_json(spec), None)
        path = Path(spec.record_path)
        record = replace(read_record(path), started_at=started_at, wall_s=time.perf_counter() - began)
        write_atomically(path, to_json(record))
        return record

    def close(self) -> None:
        """Nothing is held."""
