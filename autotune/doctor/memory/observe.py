"""The child's side of `autotune memory`: a warm step, its peak, and an account of one step."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

from autotune.batches import clone
from autotune.device import Device, device_named
from autotune.doctor.examine import config_of, open_session
from autotune.doctor.lines import Birthplaces
from autotune.doctor.memory.account import ACTIVATIONS, Account, ModuleBytes, Moment
from autotune.doctor.memory.tracking import Tracker
from autotune.measure.session import Session
from autotune.measure.training import Training
from autotune.probing.data import dataset_length
from autotune.records import TrialSpec
from autotune.workload import Workload

WARM_UPDATES = 2  # then the optimizer's state is there, and so are the gradients of the step before
PEAK_UPDATES = 2
MOMENTS = 40  # of the plot
TOP = 10
SNAPSHOT = "memory-snapshot.pickle"


def observe(workload: Workload, spec: TrialSpec, progress: Callable[..., None], seconds: dict[str, float]) -> Account:
    """Train a few steps and account for the memory of one.

    Raises:
        WorkloadError: it cannot be trained as it is.
        UsageError: no batch size is known.
    """
    progress("device", {})
    device = device_named(spec.device)
    device.cap_memory(spec.limits.device_bytes)
    config = config_of(workload, spec)
    progress("build", {})
    birthplaces = Birthplaces()
    with birthplaces.watching():
        training = Training(workload, config, device=spec.device, seed=spec.seed)
    session = _session(training, device, spec, progress, seconds)
    progress("first step", {})
    _train(session, WARM_UPDATES)
    device.reset_peaks()
    progress("peak", {})
    _train(session, PEAK_UPDATES)
    peaks = device.peaks()
    # the whole life of the process counts on the host: memory that was once taken is seldom given back
    needed = peaks.reserved if device.is_accelerator else session.host_memory.lifetime_peak(_steady(session))
    batch = session.stream.next().host
    session.stream.close()
    progress("account", {})
    tracker, compiled = _track(training, batch, session.accumulation)
    snapshot = _snapshot(session, batch, Path(spec.record_path).with_name(SNAPSHOT))
    return Account(
        config=dict(config),
        device=str(device.torch),
        device_name=device.name,
        batch_size=training.batch_size,
        fixed_batch=_why_fixed(session, workload),
        dataset_length=session.dataset_length,
        accelerator=device.is_accelerator,
        peak=tracker.peak,
        timeline=_thinned(tracker.moments),
        modules=_modules(tracker, training, birthplaces),
        needed=needed,
        allocated=peaks.allocated,
        snapshot=snapshot,
        notes=("the account is of the model uncompiled; the peak is that of the compiled one",) if compiled else (),
    )


def _session(
    training: Training, device: Device, spec: TrialSpec, progress: Callable[..., None], seconds: dict[str, float]
) -> Session:
    if spec.number == 0:
        return open_session(training, device, spec.limits, progress, seconds)
    # another batch size of what the first look knows already: large batches may take long to load
    length = dataset_length(training)
    return Session(
        training=training,
        device=device,
        limits=spec.limits,
        dataset_length=length,
        progress=progress,
        seconds=seconds,
    )


def _train(session: Session, updates: int) -> None:
    """Make so many updates on one new batch: what it holds does not matter to memory."""
    fetched = session.stream.next()
    for number in range(updates * session.accumulation):
        if number and session.ahead:  # a batch on its way to the device arrives once
            fetched = session.stream.next()
        session.step(fetched)
    session.device.synchronize()


def _steady(session: Session) -> int:
    return max(session.host_memory.steady_peak(), session.host_memory.sample_tree())


def _why_fixed(session: Session, workload: Workload) -> str:
    if workload.loader is None and workload.pre_batched:
        return "the dataset yields its batches itself"
    return "the loader decides the batch size itself" if session.fixed_batch else ""


def _track(training: Training, batch: Any, updates_after: int) -> tuple[Tracker, bool]:
    """Follow one step; where several batches make one update, the last of them."""
    import torch

    placed = training.loader.place(clone(batch))
    compiled = training.tuned.compiles
    stance = torch.compiler.set_stance("force_eager") if compiled else contextlib.nullcontext()
    with stance:
        for _ in range(updates_after - 1):
            training.step(training.loader.place(clone(batch)))
        tracker = Tracker(training.model, training.optimizers, placed)
        with tracker.following():
            training.step(placed)
    return tracker, compiled


def _snapshot(session: Session, batch: Any, path: Path) -> str:
    """Save the allocator's own snapshot of one step; return its file, or "" where the device has none."""
    training = session.training

    def step() -> None:
        training.step(training.loader.place(clone(batch)))
        session.device.synchronize()

    return str(path) if session.device.save_snapshot(path, step) else ""


def _thinned(moments: list[Moment]) -> tuple[Moment, ...]:
    """Return at most `MOMENTS` of them, each the largest of its stretch."""
    count = min(MOMENTS, len(moments))
    edges = [round(index * len(moments) / count) for index in range(count + 1)] if count else []
    return tuple(max(moments[begin:end], key=lambda moment: moment.bytes) for begin, end in pairwise(edges))


def _modules(tracker: Tracker, training: Training, birthplaces: Birthplaces) -> tuple[ModuleBytes, ...]:
    found = []
    for name, size in tracker.peak_modules.most_common(TOP):
        module = training.model.get_submodule(name)
        place = birthplaces.place(name, module) if name else f"outside the submodules of {type(module).__name__}"
        found.append(ModuleBytes(place=place, kind=type(module).__name__, bytes=size))
    rest = tracker.peak.parts.get(ACTIVATIONS, 0) - sum(item.bytes for item in found)
    if rest > 0:
        found.append(ModuleBytes(place="all others", kind="", bytes=rest))
    return tuple(found)
