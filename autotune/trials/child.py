"""The trial's own side: from a spec to a record on disk, whatever the user's code does."""

from __future__ import annotations

import json
import os
import signal
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from autotune.config import Config
from autotune.device import device_named
from autotune.documents import from_json
from autotune.errors import AutotuneError, Unsupported
from autotune.machine import versions
from autotune.measure.protocol import Wanted, measure
from autotune.measure.session import Session
from autotune.measure.training import Training, seed_all
from autotune.measure.validity import NonFinite
from autotune.numerics import Numerics
from autotune.outcomes import classify_error, culprit, failure
from autotune.probing.probe import probe
from autotune.records import Failure, Outcome, Phases, TrialRecord, TrialSpec
from autotune.scripting.probe import probe_script
from autotune.scripting.trial import measure_script
from autotune.trials.folder import write_atomically
from autotune.trials.numerics import check_numerics
from autotune.trials.sandbox import refusal
from autotune.trials.sending import end_workers_that_cannot_send
from autotune.workload import Workload
from autotune.workload.find import load_workload
from autotune.workload.script import brief, user_traceback

LAST_WORDS_S = 0.5  # for the signal of a worker whose connection broke
MIN_PROGRESS_S = 0.05  # between two messages of one phase: the trial must not spend its time on talking


class Progress:
    """Tells the steering process where the trial is; drops messages rather than wait for a reader."""

    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor
        self.phase = "start"
        self._sent_at = 0.0
        if descriptor is not None:
            os.set_blocking(descriptor, False)

    def __call__(self, phase: str, figures: dict[str, Any]) -> None:
        now = time.perf_counter()
        if self._descriptor is None or (phase == self.phase and now - self._sent_at < MIN_PROGRESS_S):
            return
        self.phase, self._sent_at = phase, now
        with suppress(OSError):
            os.write(self._descriptor, json.dumps({"phase": phase, **figures}).encode() + b"\n")


def run_trial(spec_text: str, progress_descriptor: int | None) -> None:
    """Run the trial that a spec describes and leave its record on disk."""
    began = time.perf_counter()
    spec = from_json(TrialSpec, spec_text)
    progress = Progress(progress_descriptor)
    end_workers_that_cannot_send()
    seconds: dict[str, float] = {}
    found, error = _run_to_its_end(spec, progress, seconds)
    if error is None:
        outcome, trouble = Outcome.PRUNED if "pruned" in _flags(found) else Outcome.OK, None
    else:
        outcome, trouble = _account_for(error, progress.phase)
    seconds["total_s"] = time.perf_counter() - began
    record = TrialRecord(
        number=spec.number,
        kind=spec.kind,
        config=spec.config,
        outcome=outcome,
        failure=trouble,
        phases=Phases(**seconds),
        limits=spec.limits,
        seed=spec.seed,
        versions=versions(),
        **found,
    )
    write_atomically(Path(spec.record_path), json.dumps(asdict(record)))


def _run_to_its_end(
    spec: TrialSpec, progress: Progress, seconds: dict[str, float]
) -> tuple[dict[str, Any], BaseException | None]:
    """Return what the trial found, and the error that ended it: whatever the user's code raises, SystemExit included.

    torch raises from its handler of SIGCHLD when a loader worker dies. The broken connection to that worker may show
    earlier, and says nothing; and what comes late must not hit the writing of the record.
    """
    found: dict[str, Any] = {}
    ended: BaseException | None = None
    try:
        found = _run(spec, progress, seconds)
    except BaseException as error:
        ended = error
    try:
        if isinstance(ended, ConnectionError | EOFError):
            time.sleep(LAST_WORDS_S)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    except RuntimeError as death:
        ended = death
    return ({}, ended) if ended is not None else (found, None)


def _run(spec: TrialSpec, progress: Progress, seconds: dict[str, float]) -> dict[str, Any]:
    """Return the parts of the record that a successful trial has."""
    at = time.perf_counter()
    progress("import", {})
    seed_all(spec.seed)
    if spec.source.unmodified:
        if spec.kind == "probe":
            seconds["import_s"] = 0.0
            return {"facts": asdict(probe_script(spec, progress, seconds))}
        if spec.kind == "sketch":
            from autotune.scripting.sketch.write import sketch_script  # no trial needs it

            return {"facts": sketch_script(spec, progress)}
        return measure_script(spec, progress, seconds)
    workload = load_workload(spec.source)
    seconds["import_s"] = time.perf_counter() - at
    if spec.kind == "probe":
        return {"facts": asdict(probe(workload, spec, progress, seconds))}
    if spec.kind == "numerics":
        return {"numerics": _compare(workload, spec, progress)}
    if spec.kind == "doctor":
        from autotune.doctor.examine import examine  # no trial needs it

        return {"diagnosis": asdict(examine(workload, spec, progress, seconds))}
    if spec.kind == "memory":
        from autotune.doctor.memory.observe import observe as account

        return {"diagnosis": asdict(account(workload, spec, progress, seconds))}
    if spec.kind == "profile":
        from autotune.doctor.profile.observe import observe as trace

        return {"diagnosis": asdict(trace(workload, spec, progress, seconds))}
    return _measure(workload, spec, progress, seconds)


def _compare(workload: Workload, spec: TrialSpec, progress: Progress) -> Numerics:
    device = device_named(spec.device)
    device.cap_memory(spec.limits.device_bytes)
    return check_numerics(
        workload,
        Config(**spec.baseline),
        Config(**spec.config),
        device=spec.device,
        seed=spec.seed,
        task=spec.numerics,
        progress=progress,
    )


def _measure(workload: Workload, spec: TrialSpec, progress: Progress, seconds: dict[str, float]) -> dict[str, Any]:
    at = time.perf_counter()
    progress("build", {})
    device = device_named(spec.device)
    device.cap_memory(spec.limits.device_bytes)
    training = Training(workload, Config(**spec.config), device=spec.device, seed=spec.seed)
    device.synchronize()
    seconds["build_s"] = time.perf_counter() - at
    session = Session(
        training=training,
        device=device,
        limits=spec.limits,
        dataset_length=spec.dataset_length,
        fixed_batch=spec.fixed_batch,
        progress=progress,
        seconds=seconds,
    )
    measurement, gradient_names = measure(session, Wanted.of(spec))
    seconds["first_batch_s"] = session.stream.first_batch_s
    return {"measurement": measurement, "gradient_names": gradient_names}


def _flags(found: dict[str, Any]) -> tuple[str, ...]:
    measurement = found.get("measurement")
    return measurement.flags if measurement is not None else ()


def _account_for(error: BaseException, phase: str) -> tuple[Outcome, Failure]:
    if isinstance(error, NonFinite):
        return Outcome.NON_FINITE, Failure(
            reason="loss is not finite", message="the loss became NaN or infinite", phase=phase
        )
    if isinstance(error, Unsupported):
        return Outcome.UNSUPPORTED, Failure(reason=error.message, message=str(error), phase=phase)
    if isinstance(error, AutotuneError):
        return Outcome.ERROR, Failure(reason=error.message, message=str(error), traceback=error.traceback, phase=phase)
    classified = classify_error(error)
    told = "\n".join(part for part in (brief(culprit(error)), refusal(culprit(error))) if part)
    return classified.outcome, failure(classified, told, user_traceback(error), phase)
