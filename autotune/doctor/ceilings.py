"""How fast the step is, what it waits for, and how fast it could be."""

from __future__ import annotations

import dataclasses
import math
import time
import warnings
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader
from torch.utils.flop_counter import FlopCounterMode

from autotune.batches import clone, map_tensors, nbytes
from autotune.device import Device
from autotune.doctor.findings import Ceilings, LoaderRate
from autotune.doctor.kinds import profile_kinds
from autotune.doctor.timing import quickest, stretch, typical
from autotune.machine import usable_cores
from autotune.measure.blocks import StopRule, estimate
from autotune.measure.breakdown import cached_compute
from autotune.measure.session import Session
from autotune.measure.window import measure_window, plan_blocks
from autotune.records import Block, is_input_bound
from autotune.tuned import TunedLoader

LOADER_S = 1.5  # seconds that each number of workers is read for
LOADER_MAX_S = 5.0  # the same where batches are slow
MAX_WORKERS = 4
LAUNCH_OPERATIONS = 500
MATMUL_S = 0.4
MATMUL_SIDES = (512, 1024, 2048, 4096)
LAUNCH_BOUND = 0.5  # of the compute
IDLE_BOUND = 0.3  # of the compute, that an accelerator has nothing to do


def measure_step(session: Session) -> tuple[Ceilings, list[Any]]:
    """Time steps as the training runs them, and on batches that are there already.

    Returns:
        What a step is made of, and the batches kept for further looks.
    """
    plan = plan_blocks(session)
    rule = StopRule(min_s=session.device.min_window_s, budget_s=plan.budget_s)
    blocks, _ = measure_window(session, plan, rule)
    found = estimate(blocks)
    per_step = _total(blocks, "samples") / _total(blocks, "steps")
    wait_share = _total(blocks, "wait_s") / _total(blocks, "wall_s")
    compute_s = cached_compute(session)
    cached = [session.stream.next().host for _ in range(4)]
    session.stream.close()
    step_s = found.sample_s * per_step
    wait_s = wait_share * step_s  # as a share: a sum and a robust mean do not fit together
    loader_s = session.loader_s if session.workers and session.loader_s else wait_s
    ceilings = Ceilings(
        step_s=step_s,
        uncertainty=found.uncertainty,
        samples_per_step=per_step,
        workers=session.workers,
        wait_s=min(wait_s, step_s),
        compute_s=min(compute_s, step_s if session.device.is_accelerator else step_s - min(wait_s, step_s)),
        loader_s=loader_s,
        precision=_precision(session),
    )
    return ceilings, cached


def complete(session: Session, ceilings: Ceilings, cached: list[Any]) -> Ceilings:
    """Return the ceilings with what takes further looks: the loader alone, transfer, launches, the machine's rate."""

    session.progress("loader alone", {})
    loaders = tuple(loader_rates(session))
    session.progress("operations", {})
    kinds = profile_kinds(session, cached)
    transfer_s = _transfer_s(session, cached)
    flops = _flops_per_step(session, cached)
    launch_s = kinds.operations * _launch_s(session, cached)
    session.progress("machine", {})
    rate = matmul_rate(session.device, ceilings.precision) if flops else None
    today = [rate.samples_per_s for rate in loaders if rate.workers == session.workers]
    completed = dataclasses.replace(
        ceilings,
        loader_s=ceilings.samples_per_step / today[0] if today else ceilings.loader_s,
        transfer_s=transfer_s,
        launch_s=min(launch_s, ceilings.compute_s),
        operations=kinds.operations,
        device_busy_s=kinds.device_busy_s,
        loaders=loaders,
        flops_per_sample=flops / ceilings.samples_per_step if flops else None,
        matmul_flops=rate,
        kinds=kinds.shares,
    )
    return dataclasses.replace(completed, bound_by=verdict(completed))


def verdict(ceilings: Ceilings) -> str:
    """Return what bounds the step: "input", "transfer", "launches" or "compute"."""
    # without workers there is nothing that the loader could slow: what is neither waiting nor compute is noise
    stalled_s = ceilings.step_s - ceilings.compute_s if ceilings.workers else ceilings.wait_s
    if is_input_bound(stalled_s / ceilings.step_s, ceilings.uncertainty):
        return "input"
    if ceilings.transfer_s is not None and ceilings.transfer_s > 0.5 * ceilings.compute_s:
        return "transfer"
    if ceilings.device_busy_s is not None:
        return "launches" if ceilings.device_busy_s < (1 - IDLE_BOUND) * ceilings.compute_s else "compute"
    return "launches" if ceilings.launch_s > LAUNCH_BOUND * ceilings.compute_s else "compute"


def loader_rates(session: Session) -> Iterator[LoaderRate]:
    """Yield the loader's pace by number of workers, today's among them; the device is idle meanwhile."""
    host = session.training.loader.host
    for workers in _worker_counts(session):
        made = host if workers == session.workers else _with_workers(host, workers)
        if made is not None:
            rate = _rate(session, made, workers)
            if rate is not None:
                yield LoaderRate(workers=workers, samples_per_s=rate)


def _worker_counts(session: Session) -> list[int]:
    if not session.plain_loader:
        return [session.workers]
    most = min(MAX_WORKERS, math.floor(usable_cores()))
    return sorted({0, *(2**power for power in range(3) if 2**power <= most), session.workers})


def _with_workers(host: Any, workers: int) -> Any:
    """Return the same loader with another number of workers; None where it cannot be made."""
    if not isinstance(host, DataLoader) or host.batch_sampler is None:
        return None
    return DataLoader(
        host.dataset,
        batch_sampler=host.batch_sampler,
        num_workers=workers,
        collate_fn=host.collate_fn,
        pin_memory=host.pin_memory,
        worker_init_fn=host.worker_init_fn,
        multiprocessing_context=host.multiprocessing_context if workers else None,
    )


def _rate(session: Session, host: Any, workers: int) -> float | None:
    """Return samples a second once all workers run; None where an epoch is too short to tell."""
    stream = session.open_stream(TunedLoader(host, session.training.tuned.place), session.dataset_length)
    began = session.clock()
    for _ in range(2 * workers + 1):
        stream.next()
    samples, busy = 0, 0.0
    while busy < LOADER_S and session.clock() - began < LOADER_MAX_S:
        fetched = stream.next()
        if fetched.boundary_s is not None:
            continue  # an epoch's restart is not the loader's pace
        samples += fetched.samples
        busy += fetched.wait_s
    stream.close()
    return samples / busy if samples and busy > 0 else None


def _transfer_s(session: Session, cached: list[Any]) -> float | None:
    """Return the seconds that copying a batch to the accelerator takes; None on the CPU."""
    if not session.device.is_accelerator:
        return None
    took = []
    for index in range(8):
        batch = cached[index % len(cached)]
        session.device.synchronize()
        began = session.clock()
        map_tensors(batch, lambda tensor: tensor.to(session.device.torch))
        session.device.synchronize()
        took.append(session.clock() - began)
    return sorted(took)[len(took) // 2] if nbytes(cached[0]) else 0.0


def _flops_per_step(session: Session, cached: list[Any]) -> int:
    """Return the operations of one step, forward and backward, by torch's own formulas; 0 where it cannot count."""
    training = session.training
    try:
        with warnings.catch_warnings(), FlopCounterMode(display=False) as counter:
            warnings.simplefilter("ignore")
            training.step(training.loader.place(clone(cached[0])))
    except RuntimeError:  # a compiled model, an operator without shapes
        return 0
    return int(counter.get_total_flops())


def _launch_s(session: Session, cached: list[Any]) -> float:
    """Return the seconds that the host takes to start one operation, mean of forward and backward ones."""
    one = torch.ones((), device=session.device.torch, requires_grad=True)

    def work() -> None:
        result = one
        for _ in range(LAUNCH_OPERATIONS // 2):
            result = result * 1.0
        torch.autograd.grad(result, one)

    if session.device.is_accelerator:
        return typical(work, session.device.synchronize) / LAUNCH_OPERATIONS

    def steps() -> None:
        for batch in cached:
            session.training.step(session.training.loader.place(clone(batch)))

    return typical(work, clock=time.process_time) * stretch(steps) / LAUNCH_OPERATIONS


def matmul_rate(device: Device, precision: str) -> float:
    """Return the operations a second of the fastest square matrix product tried, in `precision`."""
    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(precision, torch.float32)
    best, began = 0.0, time.perf_counter()
    for side in MATMUL_SIDES:
        a, b = (
            torch.randn(side, side, device=device.torch).to(dtype),
            torch.randn(side, side, device=device.torch).to(dtype),
        )
        out = torch.empty_like(a)

        def work(a: Any = a, b: Any = b, out: Any = out) -> None:
            torch.mm(a, b, out=out)

        took = quickest(work, device.synchronize, rounds=3)
        best = max(best, 2 * side**3 / took)
        if time.perf_counter() - began > MATMUL_S:
            break
    return best


def _precision(session: Session) -> str:
    return str(session.training.config.value("precision"))


def _total(blocks: list[Block], field: str) -> float:
    return float(sum(getattr(block, field) for block in blocks))
