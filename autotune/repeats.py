"""Which of several runs of one config count."""

from __future__ import annotations

from collections.abc import Sequence

from autotune.records import REPEAT, Measurement, TrialRecord


def undisturbed(runs: Sequence[Measurement]) -> list[Measurement]:
    """Return the runs of one config that count: the undisturbed ones, or all where there is none."""
    return [run for run in runs if not run.disturbed] or list(runs)


def standing(runs: Sequence[TrialRecord]) -> list[TrialRecord]:
    """Return the runs of one config that count: a repeat that settles it stands in for the disturbed run before it."""
    found: list[TrialRecord] = []
    for run in runs:
        if run.kind != REPEAT or not found:
            found.append(run)
        elif run.outcome.settles:
            found[-1] = run
    return found
