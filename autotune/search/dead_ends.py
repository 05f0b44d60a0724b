"""What a search ends with where it cannot have an answer: one error that names the cause and the way out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from autotune.errors import DoesNotFit, ScriptError, SearchFailed
from autotune.records import Failure, Outcome
from autotune.search.measured import Measured
from autotune.search.observation import Observation
from autotune.trials.folder import RunFolder
from autotune.words.figures import memory
from autotune.words.text import values_text

ALIKE = 3  # failures in a row with one reason, and nothing else: the rest would fail too
ENDS_THE_SEARCH = (Outcome.ERROR, Outcome.NON_FINITE, Outcome.CRASHED)
"""outcomes of the baseline after which nothing else makes sense: what the user runs today does not run"""


def baseline_failed(baseline: Measured) -> bool:
    """Return whether the baseline's last run failed for good and no other run of it was measured."""
    measured = any(item.measurement for item in baseline.records)
    return bool(baseline.records) and not measured and baseline.records[-1].outcome in ENDS_THE_SEARCH


def check_baseline(baseline: Measured, folder: RunFolder) -> None:
    """Go on unless the baseline's last run failed for good and no other run of it was measured.

    Raises:
        ScriptError: it did; carries the user's traceback.
    """
    if not baseline_failed(baseline):
        return
    record = baseline.records[-1]
    trouble = record.failure or Failure(reason=record.outcome.value)
    raise ScriptError(
        f"the baseline does not run: {trouble.message or trouble.reason}",
        hint=f"It is what you run today: {values_text(baseline.config)}. Its log: {folder.log(record.number)}",
        traceback=trouble.traceback,
    )


def check_failures(measured: Collection[Measured], reasons: Sequence[str], folder: RunFolder) -> None:
    """Go on unless there are trials enough and every one of them failed for one reason.

    Args:
        measured: every config with a run.
        reasons: of the last trials, as many as failed in a row, those that ran out of memory left out.
        folder: holds their logs.

    Raises:
        SearchFailed: they all failed alike.
    """
    runs = [record for item in measured for record in item.records]
    alike = reasons[-ALIKE:]
    if len(runs) > len(reasons) or len(alike) < ALIKE or len(set(alike)) > 1:
        return
    record = next(run for run in runs if run.failure)
    assert record.failure is not None
    raise SearchFailed(
        f"all of the first {ALIKE} trials failed alike: {record.failure.message or alike[0]}",
        hint=f"See {folder.log(record.number)}",
        traceback=record.failure.traceback,
    )


def nothing_usable(measured: Collection[Measured], folder: RunFolder, which: str) -> DoesNotFit | SearchFailed:
    """Return the error of a search that used up its budget and measured nothing that it could recommend.

    `which` memory decides whether a config fits: device or host.
    """
    outcomes = [seen for item in measured for seen in item.seen]
    short = [seen for seen in outcomes if seen.fits is False]
    if short and len(short) >= len(outcomes) / 2:
        sizes = [int(seen.config.value("batch_size")) for seen in short]
        return DoesNotFit(
            f"nothing fits into {memory(short[0].limit_bytes or 0)} of {which} memory: {len(short)} of {len(outcomes)} "
            f"trials ran out of it, down to batch size {min(sizes)}",
            hint="Allow more with --memory-limit or --host-memory-limit, or make the model smaller.",
        )
    counts = Counter(map(_worded, outcomes))
    words = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()))
    message = f"no config was measured without a failure; the trials: {words}"
    failed = [record for item in measured for record in item.records if record.failure is not None]
    if not failed:
        return SearchFailed(message)
    last = max(failed, key=lambda record: record.number)
    assert last.failure is not None
    return SearchFailed(
        f"{message}; trial {last.number}: {last.failure.message or last.failure.reason}",
        hint=f"See {folder.log(last.number)}",
        traceback=last.failure.traceback,
    )


def _worded(seen: Observation) -> str:
    return f"out of {seen.beside} memory" if seen.beside else seen.outcome.value.replace("_", " ")
