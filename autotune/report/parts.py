"""Where the time of a sample goes: waiting, compute, what the loader takes from it, and the start of an epoch."""

from __future__ import annotations

from collections.abc import Sequence

from autotune.config import Config
from autotune.records import Measurement
from autotune.repeats import undisturbed
from autotune.words.figures import percent

PARTS = {
    "wait": "waiting for data",
    "compute": "compute",
    "contention": "compute slowed by the loader",
    "disturbance": "disturbance",
    "rest": "not taken apart",
    "epoch": "start of an epoch",
}
LEAST_TOLD = 0.005  # of the time; less is left out of a sentence


def time_parts(found: Sequence[Measurement], config: Config) -> dict[str, float] | None:
    """Return seconds a sample by part under a config: the mean over the runs that count; None where there is none."""
    runs = [_parts(item, config) for item in undisturbed(found)]
    return {part: sum(run[part] for run in runs) / len(runs) for part in PARTS} if runs else None


def parts_text(parts: dict[str, float]) -> str:
    """Return "compute 93 %, waiting for data 7.0 %", the largest first."""
    total = sum(parts.values())
    shares = sorted(((seconds / total, PARTS[part]) for part, seconds in parts.items()), reverse=True)
    return ", ".join(f"{title} {percent(share)}" for share, title in shares if share >= LEAST_TOLD)


def _parts(found: Measurement, config: Config) -> dict[str, float]:
    # a loader that slows nothing leaves noise behind, which may be below zero: then it is compute's
    slowed_s = max(0.0, found.contention_s or 0.0)
    workers = config.value("num_workers") != 0  # without any there is no loader beside the compute that could slow it
    split = found.compute_s is not None
    per_step = {
        "wait": found.wait_s,
        "compute": min(found.compute_s or 0.0, found.step_s - found.wait_s),
        "contention": slowed_s if workers else 0.0,
        "disturbance": 0.0 if workers else slowed_s,
        "rest": 0.0 if split else found.step_s - found.wait_s,
    }
    parts = {part: seconds / found.samples_per_step for part, seconds in per_step.items()}
    parts["epoch"] = found.epoch_overhead_s / found.samples_per_epoch if found.samples_per_epoch else 0.0
    return parts
