"""The doctor's own side: from a loaded workload to a diagnosis, in a child process of its own."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from torch import nn

from autotune.config import Config
from autotune.device import Device, device_named
from autotune.doctor.ceilings import complete, measure_step
from autotune.doctor.checks import all_checks
from autotune.doctor.context import Context, findings_of
from autotune.doctor.findings import Diagnosis, Finding, in_order
from autotune.doctor.lines import Birthplaces
from autotune.errors import UsageError
from autotune.machine import Machine
from autotune.measure.session import Session
from autotune.measure.training import Training
from autotune.measure.warmup import warm_up
from autotune.outcomes import classify_error
from autotune.probing.data import dataset_length, first_batches, why_batch_is_fixed
from autotune.records import Limits, Outcome, TrialSpec
from autotune.workload import Workload
from autotune.workload.script import brief

EXPERIMENTS_S = 60.0  # that all checks together may take for trying fixes out
UNRELIABLE = {
    "cpu_contended": "other programs used the processor meanwhile: times are longer than the training's own",
    "cpu_contended_hard": "other programs used the processor heavily meanwhile: take no figure here for exact",
    "no_steady_state": "the speed changed while it was measured: take no figure here for exact",
    "noisy": "step times scatter widely: small gains cannot be told from noise",
    "swapping": "the machine was swapping meanwhile",
}


def examine(workload: Workload, spec: TrialSpec, progress: Callable[..., None], seconds: dict[str, float]) -> Diagnosis:
    """Build the workload, measure its ceilings, and let every check look at it.

    Raises:
        WorkloadError: it cannot be trained as it is.
        UsageError: no batch size is known.
    """
    began = time.perf_counter()
    progress("device", {})
    device = device_named(spec.device)
    config = config_of(workload, spec)
    progress("build", {})
    birthplaces = Birthplaces()
    with birthplaces.watching(), _unwrapping(workload) as unwrapped:
        training = Training(workload, config, device=spec.device, seed=spec.seed)
    context = _measured(open_session(training, device, spec.limits, progress, seconds), birthplaces, tuple(unwrapped))
    context.deadline = context.session.clock() + EXPERIMENTS_S
    findings, failed = run_checks(context, all_checks(), progress)
    if context.compiled:
        failed.append("the checks looked at the model uncompiled; the ceilings are those of the compiled one")
    disturbed = [UNRELIABLE[flag] for flag in context.session.flags if flag in UNRELIABLE]
    return Diagnosis(
        config=dict(config),
        device=device.id,
        device_name=device.name,
        cores=context.machine.usable_cores,
        ceilings=context.ceilings,
        findings=in_order(findings),
        notes=(*disturbed, *failed),
        seconds=context.session.clock() - began,
    )


def run_checks(
    context: Context, checks: Mapping[str, ModuleType], progress: Callable[..., None] = lambda *_: None
) -> tuple[list[Finding], list[str]]:
    """Return what the checks found, and why some could not be made: one that fails must not hide the others."""
    findings: list[Finding] = []
    failed: list[str] = []
    for name, check in checks.items():
        progress(f"check {name.replace('_', ' ')}", {})
        try:
            findings += findings_of(check, context)
        except Exception as error:
            if classify_error(error).outcome is not Outcome.ERROR:
                raise
            failed.append(f"the check of {name.replace('_', ' ')} could not be made: {brief(error)}")
        gc.collect()
    return findings, failed


def config_of(workload: Workload, spec: TrialSpec) -> Config:
    """Return what is looked at: the tuned config where one is given, else what the user runs today."""
    today = {**workload.baseline, **spec.baseline}
    values = dict(spec.config) or today
    if "batch_size" not in values and "batch_size" in today:
        values["batch_size"] = today["batch_size"]
    if "batch_size" in values:
        return Config(**values)
    if workload.loader is None and not workload.pre_batched:
        raise UsageError(
            "no batch size: this looks at what you run today",
            hint="Give it: --baseline batch_size=64, or Workload(baseline={'batch_size': 64}).",
        )
    return Config(**{**values, "batch_size": 1})


def open_session(
    training: Training,
    device: Device,
    limits: Limits,
    progress: Callable[..., None],
    seconds: dict[str, float],
) -> Session:
    length = dataset_length(training)
    batches, _ = first_batches(training)
    fixed = why_batch_is_fixed(training, batches[0], training.batch_size, length) is not None
    return Session(
        training=training,
        device=device,
        limits=limits,
        dataset_length=length,
        fixed_batch=fixed,
        progress=progress,
        seconds=seconds,
    )


def _measured(session: Session, birthplaces: Birthplaces, unwrapped: tuple[str, ...]) -> Context:
    """Return a context whose steps are warm and whose ceilings are known."""
    warm_up(session, None)
    session.host_memory.reset_peak()
    session.device.reset_peaks()
    session.progress("window", {})
    ceilings, cached = measure_step(session)
    peaks = session.device.peaks()
    peak = peaks.allocated if session.device.is_accelerator else session.host_memory.steady_peak()
    return Context(
        session=session,
        machine=Machine.read(),
        ceilings=complete(session, ceilings, cached),
        cached=cached,
        birthplaces=birthplaces,
        unwrapped=unwrapped,
        peak_bytes=peak,
    )


@contextmanager
def _unwrapping(workload: Workload) -> Iterator[list[str]]:
    """Take a DataParallel off the model, which a measurement on one device refuses: here it is a finding."""
    build, taken = workload.model, list[str]()

    def model() -> Any:
        built = build()
        if isinstance(built, nn.DataParallel):
            taken.append(type(built).__name__)
            return built.module
        return built

    workload.model = model
    try:
        yield taken
    finally:
        workload.model = build
