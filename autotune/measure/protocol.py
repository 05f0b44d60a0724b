"""A measured trial from its first batch to its last figure: the order of the phases, and what they come to."""

from __future__ import annotations

import gc
from dataclasses import dataclass

from autotune.compiling import end_workers
from autotune.measure.blocks import StopRule, estimate
from autotune.measure.breakdown import cached_compute, epoch_overhead, memory_peaks, small_batch_peak
from autotune.measure.filling import fill
from autotune.measure.session import KEPT_LOSSES, Session
from autotune.measure.validity import NonFinite, finite
from autotune.measure.warmup import warm_up
from autotune.measure.window import measure_window, plan_blocks
from autotune.records import Block, Measurement, TrialSpec, start_share_s


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What is asked of a measurement."""

    target: float = 0.03
    """relative half-width within the run"""
    best_sample_s: float | None = None
    """of the search so far; a clearly slower run stops early"""
    fixed_blocks: int | None = None
    """a window by plan, for verification: compute on cached batches is not measured then"""
    gradient_names: tuple[str, ...] | None = None
    """parameters that had a gradient in each update under the baseline"""
    small_batch: int | None = None
    """batch size of a few steps before anything else, for the memory line"""
    planned_samples: int | None = None
    """samples of the whole training: the start is spread over them; None: it is not"""
    known_compile_s: float = 0.0
    """what compiling took before the compile cache knew this config"""

    @classmethod
    def of(cls, spec: TrialSpec) -> Wanted:
        """Return what a trial's spec asks."""
        return cls(
            target=spec.target,
            best_sample_s=spec.best_sample_s,
            fixed_blocks=spec.fixed_blocks,
            gradient_names=spec.gradient_names,
            small_batch=spec.small_batch,
            planned_samples=spec.planned_samples,
            known_compile_s=spec.known_compile_s,
        )


def measure(session: Session, wanted: Wanted) -> tuple[Measurement, tuple[str, ...]]:
    """Run the phases; return the measurement and the parameters that had a gradient in each update of the warm-up.

    Raises:
        NonFinite: the loss is not a number.
        TrainsNothing: no update, no change, or a gradient that the baseline has is missing.
    """
    filling = fill(session)
    small = None if wanted.small_batch is None else small_batch_peak(session, wanted.small_batch)
    updates, gradient_names = warm_up(session, wanted.gradient_names)
    end_workers()  # their memory is none of the training's
    start_s = session.start_s(wanted.known_compile_s) + filling.seconds
    share_s = start_share_s(start_s, wanted.planned_samples)
    plan = plan_blocks(session)
    session.host_memory.reset_peak()
    session.device.synchronize()
    session.device.reset_peaks()
    gc.collect()  # before the workers are sampled: it writes into every object, and so unshares pages with the workers
    own_before = session.host_memory.own_of_workers()
    rule = StopRule(
        target=wanted.target,
        min_s=session.device.min_window_s,
        budget_s=plan.budget_s,
        best_sample_s=wanted.best_sample_s,
        start_share_s=share_s,
        fixed_blocks=wanted.fixed_blocks,
    )
    blocks, unmet = measure_window(session, plan, rule)
    host_peak = session.host_memory.steady_peak()
    if not finite([loss.item() for loss in session.losses]):
        raise NonFinite
    found = estimate(blocks)
    per_step = _total(blocks, "samples") / _total(blocks, "steps")
    step_s = found.sample_s * per_step
    # as a share: a mean beside a robust step time could be longer than the step
    wait_s = step_s * _total(blocks, "wait_s") / _total(blocks, "wall_s")
    steady, lifetime = memory_peaks(session, host_peak, own_before, filling.nbytes)
    compute_s = None if wanted.fixed_blocks else cached_compute(session)  # what it keeps is none of the training's
    session.stream.close()
    whole_epochs = "short_epoch" in session.flags
    overhead_s, estimated = (0.0, False) if whole_epochs else epoch_overhead(session, step_s, wait_s)
    epoch_samples = _samples_per_epoch(session, per_step)
    measurement = Measurement(
        sample_s=found.sample_s + (overhead_s / epoch_samples if epoch_samples else 0.0) + share_s,
        step_s=step_s,
        uncertainty=found.uncertainty,
        samples_per_step=per_step,
        wait_s=wait_s,
        compute_s=compute_s,
        loader_s=session.loader_s if session.workers else wait_s,
        epoch_overhead_s=overhead_s,
        epoch_overhead_estimated=estimated,
        steps_per_epoch=session.stream.steps_per_epoch,
        samples_per_epoch=epoch_samples,
        tokens_per_sample=session.tokens_per_sample,
        cache_fill_s=filling.seconds,
        cache_bytes=filling.nbytes,
        lifetime=lifetime,
        steady=steady,
        blocks=tuple(blocks),
        kept_from=found.kept_from,
        autocorrelation=found.autocorrelation,
        mean_step_s=found.mean_sample_s * per_step,
        p95_step_s=found.p95_sample_s * per_step,
        flags=tuple(session.flags),
        unmet=unmet,
        losses=tuple(loss.item() for loss in session.losses[:KEPT_LOSSES]),
        updates=updates,
        small_batch=None if small is None else wanted.small_batch,
        small_peak=small,
        compilation=session.compilation(),
        start_s=start_s,
        planned_samples=wanted.planned_samples,
    )
    return measurement, gradient_names


def _total(blocks: list[Block], field: str) -> float:
    return float(sum(getattr(block, field) for block in blocks))


def _samples_per_epoch(session: Session, per_step: float) -> int | None:
    if session.stream.samples_per_epoch is not None:
        return session.stream.samples_per_epoch
    if session.dataset_length is not None and not session.drops_last and not session.fixed_batch:
        return session.dataset_length
    epoch = session.stream.steps_per_epoch
    return None if epoch is None else round(epoch * per_step)
