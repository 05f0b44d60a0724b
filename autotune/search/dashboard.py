"""What optuna-dashboard shows of a study beside its values, in the form that it reads; it need not be installed.

Notes are system attributes of the study, as its own `save_note` writes them. Constraints it reads (as of 0.21) from the
list that Optuna kept them in before it gave them names, so that they are stored in both forms.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping

import optuna

from autotune.config import Config
from autotune.records import TrialRecord
from autotune.search.observation import Observation

LONGEST = 2000  # characters of a note: the dashboard cuts longer ones into attributes of about this size
MIB = 1 << 20


def annotate_study(study: optuna.Study, baseline: Config) -> None:
    """Say what the study's figures are."""
    told = _values(baseline)
    text = (
        "Trials of one autotune search. The objective is seconds per sample, the epoch's restart included: single "
        "runs, which prove nothing; the run folder's report.html and verification.json say what is proven.\n\n"
        "The constraint `memory` is peak memory over the limit, less 1: at most 0 fits. What the dashboard calls the "
        "best trial is best by its value alone, whether it fits or not.\n\n"
        f"Baseline: {told}"
    )
    _write(study._storage, study._study_id, "dashboard:", text)


def annotate(trial: optuna.Trial, record: TrialRecord, seen: Observation, baseline: Config) -> None:
    """Write the note of a trial, and attributes that sort in the dashboard's table."""
    for name, value in _attributes(record, seen, baseline):
        trial.set_user_attr(name, value)
    text = "\n".join(_lines(record, seen, baseline))
    _write(trial.storage, trial.study._study_id, f"dashboard:{trial._trial_id}:", text)


def constrain(trial: optuna.Trial, name: str, violation: float) -> None:
    """Store a constraint; at most 0 is feasible."""
    with warnings.catch_warnings():
        # a search that was killed between this and the trial's end stores it again: the same, from the same record
        warnings.filterwarnings("ignore", message=".*is already set", category=UserWarning)
        trial.set_constraint(name, violation)
    trial.storage.set_trial_system_attr(trial._trial_id, "constraints", [violation])


def _attributes(record: TrialRecord, seen: Observation, baseline: Config) -> Iterator[tuple[str, str | float]]:
    yield "differs", _values(seen.config.difference(baseline)) or "baseline"
    found = record.measurement
    if found is not None:
        yield "step_ms", round(1e3 * found.step_s, 3)
        yield "uncertainty", round(found.uncertainty, 4)
        yield "data_wait", round(found.wait_s / found.step_s, 3)
    if seen.peak_bytes is not None:
        yield "peak_mib", round(seen.peak_bytes / MIB)
        if seen.limit_bytes:
            yield "memory_share", round(seen.peak_bytes / seen.limit_bytes, 4)


def _lines(record: TrialRecord, seen: Observation, baseline: Config) -> Iterator[str]:
    """Yield the note's lines, in Markdown; text of the user's program stands in a code block."""
    yield f"**{record.kind}: {record.outcome.value.replace('_', ' ')}**\n"
    yield f"- differs from the baseline: `{_values(seen.config.difference(baseline)) or 'in nothing'}`"
    found = record.measurement
    if found is not None:
        within = f"±{100 * found.uncertainty:.2g} % within this single run"
        yield f"- {found.samples_per_s:.3g} samples/s ({within}), {1e3 * found.step_s:.3g} ms a step"
        if found.flags:
            yield f"- flags: {', '.join(flag.replace('_', ' ') for flag in found.flags)}"
    if seen.peak_bytes is not None:
        limit = f" of {seen.limit_bytes / MIB:.0f} MiB allowed" if seen.limit_bytes else ""
        yield f"- peak memory {seen.peak_bytes / MIB:.0f} MiB{limit}" + (": does not fit" if seen.fits is False else "")
    failure = record.failure
    if failure is not None:
        yield f"- {failure.reason}"
        told = "\n".join(text.strip() for text in (failure.message, failure.traceback) if text.strip())
        if told:
            yield f"\n~~~~\n{told.replace('~~~~', '~~~')}"  # a block that nothing closes ends with the note


def _write(storage: optuna.storages.BaseStorage, study_id: int, prefix: str, text: str) -> None:
    storage.set_study_system_attr(study_id, f"{prefix}note_ver", 1)
    storage.set_study_system_attr(study_id, f"{prefix}note_str:0", text[:LONGEST])


def _values(config: Mapping[str, object]) -> str:
    return ", ".join(f"{name}={value}" for name, value in config.items())
