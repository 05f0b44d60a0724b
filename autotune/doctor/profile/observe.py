"""The child's side of `autotune profile`: warm steps, timed, then a few of them under torch's profiler."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from autotune.device import device_named
from autotune.doctor.examine import config_of, open_session
from autotune.doctor.profile.data import Operation, Profile
from autotune.measure.session import Session
from autotune.measure.training import Training
from autotune.measure.warmup import warm_up
from autotune.records import TrialSpec
from autotune.workload import Workload

STEPS = 4  # in the trace
MAX_PROFILED_S = 10.0  # a trace of slow steps has fewer
TIMED_STEPS = 20
MAX_TIMED_S = 6.0
TRACE = "trace.json.gz"
ANNOTATIONS = ("ProfilerStep", "Optimizer.", "enumerate(DataLoader)", "autotune: ")
"""begin of names that stand for stretches of Python, not for operations"""


def observe(workload: Workload, spec: TrialSpec, progress: Callable[..., None], seconds: dict[str, float]) -> Profile:
    """Train until steps are steady, time some, and trace a few.

    Raises:
        WorkloadError: it cannot be trained as it is.
        UsageError: no batch size is known.
    """
    progress("device", {})
    device = device_named(spec.device)
    config = config_of(workload, spec)
    progress("build", {})
    training = Training(workload, config, device=spec.device, seed=spec.seed)
    session = open_session(training, device, spec.limits, progress, seconds)
    warm_up(session, None)
    progress("window", {})
    step_s, samples = _timed(session)
    progress("trace", {})
    trace = Path(spec.record_path).with_suffix("").with_name(f"{spec.number:04d}-{TRACE}")
    steps, profiler = _traced(session)
    profiler.export_chrome_trace(str(trace))
    return Profile(
        config=dict(config),
        device=str(device.torch),
        device_name=device.name,
        steps=steps,
        step_s=step_s,
        samples_per_step=samples,
        operations=_operations(profiler, steps, on_device=device.is_accelerator),
        trace=str(trace),
        trace_bytes=trace.stat().st_size,
    )


def _timed(session: Session) -> tuple[float, float]:
    """Return seconds and samples a step of some steps, loading included."""
    clock, done, samples = session.clock, 0, 0
    session.device.synchronize()
    began = clock()
    while done < TIMED_STEPS and (done < 2 or clock() - began < MAX_TIMED_S):
        fetched = session.stream.next()
        session.step(fetched)
        samples += fetched.samples
        done += 1
    session.device.synchronize()
    return (clock() - began) / done, samples / done


def _traced(session: Session) -> tuple[int, Any]:
    """Train a few steps under the profiler; return how many, and the profiler."""
    from torch.profiler import profile, record_function

    clock, steps = session.clock, 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what the profiler says of itself
        with profile(activities=session.device.profiled_activities()) as profiler:
            began = clock()
            while steps < STEPS * session.accumulation and (not steps or clock() - began < MAX_PROFILED_S):
                with record_function("autotune: wait for the batch"):
                    fetched = session.stream.next()
                with record_function("autotune: step"):
                    session.step(fetched)
                steps += 1
            session.device.synchronize()
    return steps, profiler


def _operations(profiler: Any, steps: int, *, on_device: bool) -> tuple[Operation, ...]:
    """Return the operations by the time inside them: on the accelerator where there is one."""
    found = []
    for event in profiler.key_averages():
        own_us = float(event.self_device_time_total if on_device else event.self_cpu_time_total)
        if own_us > 0 and not event.key.startswith(ANNOTATIONS):
            found.append((event.key, own_us * 1e-6 / steps, event.count / steps))
    total = sum(seconds for _, seconds, _ in found)
    return tuple(
        Operation(name=name, seconds=seconds, calls=calls, share=seconds / total)
        for name, seconds, calls in sorted(found, key=lambda one: -one[1])
    )
