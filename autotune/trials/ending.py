"""What a trial's end comes to: the record that it left, or one that says why there is none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from autotune.documents import read_record
from autotune.outcomes import DAMAGED, Classified, classify_exit, failure
from autotune.records import Failure, Outcome, TrialRecord, TrialSpec


class Ending:
    """How a trial's process ended: its wait status, or the outcome that we put on it."""

    def __init__(self, how: int | Outcome | None, trouble: Failure | None, seen: Mapping[str, Any]) -> None:
        self.how, self.trouble, self.seen = how, trouble, seen


def conclude(spec: TrialSpec, ending: Ending, log: Path) -> TrialRecord:
    """Return the record that the trial left, or one that says why there is none."""
    path, damage = Path(spec.record_path), ""
    if path.exists() and not isinstance(ending.how, Outcome):
        try:
            return with_device_view(read_record(path), ending.seen)
        except ValueError as error:
            damage = str(error)
    if isinstance(ending.how, Outcome):
        outcome, trouble = ending.how, ending.trouble
    elif damage and ending.how == 0:
        outcome, trouble = Outcome.ERROR, failure(Classified(Outcome.ERROR, DAMAGED), damage, traceback=tail(log))
    elif isinstance(ending.how, int):
        classified = classify_exit(ending.how)
        message = f"the trial's process ended without a record: {classified.reason}"
        outcome, trouble = classified.outcome, failure(classified, message, traceback=tail(log))
    else:
        outcome, trouble = Outcome.CRASHED, ending.trouble
    return TrialRecord(
        number=spec.number,
        kind=spec.kind,
        config=spec.config,
        outcome=outcome,
        failure=trouble,
        limits=spec.limits,
        seed=spec.seed,
    )


def with_device_view(record: TrialRecord, seen: Mapping[str, Any]) -> TrialRecord:
    """Add what only the steering process saw: the card's memory and state, as the driver reports them."""
    found = record.measurement
    if found is None or not seen or not found.lifetime.reserved:
        return record  # of a trial that did not use the card, what was seen says nothing
    process = int(seen.get("process_bytes", 0))
    outside = max(0, process - found.lifetime.reserved) if process else 0
    measurement = replace(
        found,
        lifetime=replace(found.lifetime, process=process, outside_torch=outside),
        # the same in both, or the memory model would take it for memory that grows with the batch
        small_peak=None if found.small_peak is None else replace(found.small_peak, outside_torch=outside),
        flags=(*found.flags, *seen.get("flags", ())),
        sm_clock_mhz=int(seen.get("sm_clock_mhz", 0)),
    )
    return replace(record, measurement=measurement)


def tail(log: Path, size: int = 2000) -> str:
    """Return the end of a log, as text."""
    try:
        data = log.read_bytes()
    except OSError:
        return ""
    return data[-size:].decode("utf-8", "replace").strip()
