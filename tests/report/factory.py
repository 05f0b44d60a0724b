"""Records for the tests of the reports, made without measuring anything."""

from __future__ import annotations

import dataclasses
import io

from rich.console import Console

from autotune.records import (
    Block,
    Failure,
    Limits,
    Measurement,
    Outcome,
    Peaks,
    Phases,
    RunInfo,
    Source,
    TrialRecord,
)

GIB = 1 << 30
LIMITS = Limits(host_bytes=8 * GIB, device_bytes=None)


def make_measurement(sample_s=0.001, uncertainty=0.02, batch=64, host=GIB, **changes) -> Measurement:
    step_s = sample_s * batch
    block = Block(steps=2, samples=2 * batch, wall_s=2 * step_s, wait_s=0.02 * step_s)
    peaks = Peaks(host=host, tree_pss=host // 2)
    values = {
        "sample_s": sample_s,
        "step_s": step_s,
        "uncertainty": uncertainty,
        "samples_per_step": float(batch),
        "wait_s": 0.01 * step_s,
        "compute_s": 0.98 * step_s,
        "loader_s": 0.01 * step_s,
        "epoch_overhead_s": 0.0,
        "epoch_overhead_estimated": False,
        "steps_per_epoch": 100,
        "samples_per_epoch": 100 * batch,
        "lifetime": peaks,
        "steady": peaks,
        "blocks": tuple(dataclasses.replace(block, wall_s=block.wall_s * (1 + 0.1 * (i % 4))) for i in range(12)),
        "kept_from": 2,
        "autocorrelation": 0.1,
        "mean_step_s": step_s,
        "p95_step_s": 1.1 * step_s,
        "flags": (),
        "losses": (2.3, 2.1, 1.9),
        "updates": 9,
    }
    return Measurement(**{**values, **changes})


def ok(number, config=None, kind="trial", outcome=Outcome.OK, limits=LIMITS, **changes) -> TrialRecord:
    """Return a measured trial; `changes` are fields of its measurement."""
    config = {"batch_size": 64, **(config or {})}
    return TrialRecord(
        number=number,
        config=config,
        outcome=outcome,
        kind=kind,
        measurement=make_measurement(batch=config["batch_size"], **changes),
        phases=Phases(import_s=0.2, build_s=0.5, first_batch_s=0.1, warmup_s=1.0, window_s=3.2, total_s=6.1),
        limits=limits,
        wall_s=6.5,
        started_at=1_800_000_000.0,
        versions={"torch": "2.13.0"},
    )


def failed(number, config=None, outcome=Outcome.OUT_OF_MEMORY, reason="out of device memory", **changes) -> TrialRecord:
    """Return a trial that measured nothing; `changes` are fields of its failure."""
    return TrialRecord(
        number=number,
        config={"batch_size": 64, **(config or {})},
        outcome=outcome,
        failure=Failure(reason=reason, **changes),
        limits=LIMITS,
        wall_s=3.0,
    )


def make_info(**changes) -> RunInfo:
    values = {
        "source": Source(script="/home/me/train[1].py"),
        "facts": {"device": "cpu", "device_name": "A CPU"},
        "machine": {
            "cpu": "A CPU",
            "usable_cores": 8.0,
            "memory_bytes": 16 * GIB,
            "available_bytes": 10 * GIB,
            "shm_free_bytes": GIB,
            "load": 0.1,
            "python": "3.11.7",
            "versions": {"torch": "2.13.0"},
            "gpus": [],
        },
        "choices": {"batch_size": [64, 128]},
        "reasons": {},
        "baseline": {"batch_size": 64},
        "limits": LIMITS,
        "sampler": "structured",
        "seed": 0,
        "trials": 24,
        "started_at": 1_800_000_000.0,
    }
    return RunInfo(**{**values, **changes})


def console_of(width: int, **options) -> Console:
    """Return a console that writes to text of its own, whatever the environment says."""
    return Console(file=io.StringIO(), width=width, legacy_windows=False, _environ={}, **options)


def text_of(console: Console) -> str:
    return console.file.getvalue()
