"""Where the time of a sample goes: waiting, compute, what the loader takes from it, and the start of an epoch."""

from __future__ import annotations

from collections.abc import Sequence

from autotune.records import Measurement
from autotune.repeats import undisturbed
from autotune.words.figures import percent

PARTS = {
    "wait": "waiting for data",
    "compute": "compute",
    "contention": "compute slowed by the loader",
    "rest": "not taken apart",
    "epoch": "start of an epoch",
}
LEAST_TOLD = 0.005  # of the time; less is left out of a sentence


def time_parts(found: Sequence[Measurement]) -> dict[str, float] | None:
    """Return seconds a sample by part: the mean over the runs that count; None where there is none."""
    runs = [_parts(item) for item in undisturbed(found)]
    return {part: sum(run[part] for run in runs) / len(runs) for part in PARTS} if runs else None


def parts_text(parts: dict[str, float]) -> str:
    """Return "compute 93 %, waiting for data 7.0 %", the largest first."""
    total = sum(parts.values())
    shares = sorted(((seconds / total, PARTS[part]) for part, seconds in parts.items()), reverse=True)
    return ", ".join(f"{title} {percent(share)}" for share, title in shares if share >= LEAST_TOLD)


def _parts(found: Measurement) -> dict[str, float]:
    contention = found.contention_s
    split = found.compute_s is not None
    per_step = {
        "wait": found.wait_s,
        # a loader that slows nothing leaves noise behind, which may be below zero: then it is compute's
        "compute": min(found.compute_s or 0.0, found.step_s - found.wait_s),
        "contention": max(0.0, contention or 0.0),
        "rest": 0.0 if split else found.step_s - found.wait_s,
    }
    parts = {part: seconds / found.samples_per_step for part, seconds in per_step.items()}
    parts["epoch"] = found.epoch_overhead_s / found.samples_per_epoch if found.samples_per_epoch else 0.0
    return parts
