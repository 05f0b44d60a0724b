"""A runner that answers from recorded trials, so that a search can be tested without a device and without waiting."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from autotune.documents import to_json
from autotune.records import Failure, Outcome, TrialRecord, TrialSpec
from autotune.trials.folder import write_atomically
from autotune.trials.runner import Report, silent


class ReplayRunner:
    """Answers each spec with a record of the same config; several of one config are replicates, taken in turn."""

    def __init__(self, records: Iterable[TrialRecord]) -> None:
        self.asked: list[TrialSpec] = []
        """every spec, in order"""
        self._records: dict[frozenset[tuple[str, Any]], list[TrialRecord]] = defaultdict(list)
        self._taken: dict[frozenset[tuple[str, Any]], int] = defaultdict(int)
        for record in records:
            self._records[self._key(record.kind == "probe", record.config)].append(record)

    def run(self, spec: TrialSpec, log: Path, report: Report = silent) -> TrialRecord:
        self.asked.append(spec)
        key = self._key(spec.kind == "probe", spec.config)
        known = self._records.get(key)
        if known:
            turn = self._taken[key]
            self._taken[key] += 1
            record = replace(known[turn % len(known)], number=spec.number, kind=spec.kind)
        else:
            trouble = Failure(reason="not recorded", message=f"no record of {dict(spec.config)}")
            record = TrialRecord(number=spec.number, config=spec.config, outcome=Outcome.ERROR, failure=trouble)
        write_atomically(Path(spec.record_path), to_json(record))
        return record

    def close(self) -> None:
        """Nothing is held."""

    @staticmethod
    def _key(probe: bool, config: Mapping[str, Any]) -> frozenset[tuple[str, Any]]:
        return frozenset() if probe else frozenset(config.items())
