"""The probe: builds the workload once, runs a step, and returns plain facts about it."""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import IterableDataset

from autotune.batches import clone, describe, nbytes, shapes, tensors
from autotune.checkpointing import Chain, find_chain
from autotune.compiling import own_compile, so_far, why_no_compiler
from autotune.config import Config
from autotune.device import Device, device_named, touched, why_allocator_is_set
from autotune.errors import ScriptError
from autotune.facts import Facts
from autotune.generators import generators_in
from autotune.measure.numerics.vectors import dense
from autotune.measure.session import drops_last
from autotune.measure.training import Training, seed_all
from autotune.probing.data import (
    dataset_length,
    first_batches,
    on_accelerator,
    probe_cache,
    raise_unless_users,
    why_batch_is_fixed,
    why_fork_only,
    why_no_workers,
)
from autotune.probing.device_facts import device_facts
from autotune.probing.habits import Habits, time_steps
from autotune.probing.inplace import InplaceCheck
from autotune.probing.kept import Kept
from autotune.probing.loss import loss_reduction
from autotune.probing.model_facts import model_facts
from autotune.probing.optimizers import probe_implementations
from autotune.probing.recomputing import find_recomputable
from autotune.records import TrialSpec
from autotune.workload import Workload
from autotune.workload.script import brief, user_traceback

USED_AT_IMPORT = "the script uses the accelerator when it is imported, and so would every process that imports it"
PROBE_BATCH = 8
OWN_STEP = "the training step does its own backward passes, so that gradients cannot be compared"


def probe(workload: Workload, spec: TrialSpec, progress: Callable[..., None], seconds: dict[str, float]) -> Facts:
    """Return what this workload is.

    Raises:
        WorkloadError: it cannot be trained as it is.
    """
    progress("device", {})
    touched_by_script = touched()
    device = device_named(spec.device)
    free_bytes = device.free_bytes()  # the probe itself will hold several copies of the model
    baseline = {**workload.baseline, **spec.baseline}
    begin = partial(_begin, workload, spec, device, progress)
    begun, why_no_other = _begin_small(begin, baseline.get("batch_size"))
    seconds["build_s"] = begun.build_s
    training, batch_size, batch = begun.training, begun.batch_size, begun.batches[0]
    length = dataset_length(training)
    compiled = own_compile(training.model) or begun.compiled
    habits = Habits.of(training, device, batch)
    cache_refused, cache_bytes = probe_cache(training)
    inplace_check = InplaceCheck(training.model, partial(_gradients, training, batch))
    inplace, inplace_refused = inplace_check.find() if not workload.own_step else ("", OWN_STEP)
    chain, chain_refused = _probe_chain(training, batch)
    recomputable = chain is not None and chain_refused is None
    implementations, implementations_refused = probe_implementations(training)
    return Facts(
        **device_facts(device, free_bytes),
        allocator_refused=USED_AT_IMPORT if touched_by_script else why_allocator_is_set(),
        dataset_length=length,
        drop_last=workload.drop_last or drops_last(training.loader.host),
        custom_loader=workload.loader is not None,
        iterable=isinstance(training.dataset, IterableDataset),
        batch_structure=describe(batch),
        sample_bytes=nbytes(batch) // batch_size,
        tensors_per_batch=sum(1 for _ in tensors(batch)),
        on_accelerator=on_accelerator(batch),
        fixed_batch=why_batch_is_fixed(training, batch, batch_size, length) or why_no_other,
        workers_refused=why_no_workers(training, batch),
        start_method=multiprocessing.get_start_method(),
        fork_only=USED_AT_IMPORT if touched_by_script else why_fork_only(training),
        threads=begun.threads,
        cache_refused=cache_refused,
        cache_sample_bytes=cache_bytes,
        variable_shapes=len({tuple(shape[1:] for shape in shapes(item)) for item in begun.batches}) > 1,
        seeded_generators=generators_in(training.dataset),
        **model_facts(training.model),
        chain=None if chain is None else chain.path or type(chain.container).__name__,
        chain_length=0 if chain is None else len(chain),
        chain_kind="" if chain is None else chain.kind,
        chain_refused=chain_refused,
        checkpoint_blocks=workload.checkpoint_blocks,
        inplace=inplace,
        inplace_refused=inplace_refused,
        inplace_recomputed=recomputable and inplace_check.works_recomputed(),
        optimizer=", ".join(training.optimizer_kinds),
        optimizer_impls=implementations,
        optimizer_impls_refused=implementations_refused,
        default_optimizer=workload.optimizer is None,
        step=training.loss_step.description or "training_step(tuned, model, batch)",
        loss_reduction=loss_reduction(training, batch),
        own_step=workload.own_step,
        uses_tuned_autocast=training.tuned.autocast_entered > 0,
        own_autocast="autocast" in begun.seen,
        own_scaler="scaler" in begun.seen,
        compiled=compiled,
        compile_refused=why_no_compiler(device.type),
        draws_random=habits.draws_random,
        synchronizes=habits.synchronizes,
        moves_parameters=habits.moves_parameters,
        import_s=seconds["import_s"],
        build_s=seconds["build_s"],
        sample_load_s=begun.load_s / batch_size,
        sample_compute_s=begun.step_s / batch_size,
        baseline=baseline,
    )


@dataclass(frozen=True, kw_only=True)
class _Begun:
    """A training after its first steps."""

    training: Training
    batch_size: int
    batches: list[Any]
    seen: set[str]
    """what the user's own step and model do by themselves"""
    compiled: bool
    threads: int
    build_s: float
    load_s: float
    """of a batch"""
    step_s: float


def _begin_small(begin: Callable[[int], _Begun], baseline: Any) -> tuple[_Begun, str | None]:
    """Begin at a batch size that nearly any workload can take: small, and more than one for BatchNorm.

    Where that fails, at the baseline's: a model may be made for one size, or for no less.

    Returns:
        What has begun, and why there is no other batch size than the baseline's, where neither a smaller one runs nor
        a larger.
    """
    usual = PROBE_BATCH if baseline is None else int(baseline)
    small = max(2, min(PROBE_BATCH, usual))
    try:
        return begin(small), None
    except ScriptError as error:
        if usual <= small:
            raise
        smaller = brief(error.__cause__ or error)
    begun = begin(usual)  # where it fails, too, its error is the one to tell
    length = dataset_length(begun.training)
    if length is not None and length < 2 * usual:
        return begun, None
    try:
        begin(2 * usual)
    except ScriptError:
        return begun, f"the step fails on a batch of another size: {smaller}"
    except Exception:
        return begun, None  # memory or the loss speaks against a larger one: the trials will tell
    return begun, None


def _begin(
    workload: Workload, spec: TrialSpec, device: Device, progress: Callable[..., None], batch_size: int
) -> _Begun:
    progress("build", {})
    at = time.perf_counter()
    training = Training(workload, Config(batch_size=batch_size), device=spec.device, seed=spec.seed)
    build_s = time.perf_counter() - at
    threads = threading.active_count() - 1  # before the loader of the probe itself starts one
    progress("first step", {})
    batches, load_s = first_batches(training)
    before = so_far().graphs
    with _watching() as seen:
        step_s = time_steps(partial(_first_step, training), batches, device)
    return _Begun(
        training=training,
        batch_size=batch_size,
        batches=batches,
        seen=seen,
        compiled=so_far().graphs > before,
        threads=threads,
        build_s=build_s,
        load_s=load_s,
        step_s=step_s,
    )


def _first_step(training: Training, batch: Any) -> Tensor | None:
    try:
        return training.step(training.loader.place(batch))
    except Exception as error:
        raise_unless_users(error)
        step = training.loss_step.description  # empty where the failure came before the loss was found
        raise ScriptError(
            f"the first step failed: {brief(error)}",
            hint=f"The batch is {describe(batch)}{f'; the step is {step}' if step else ''}.",
            traceback=user_traceback(error),
        ) from error


@contextmanager
def _watching() -> Iterator[set[str]]:
    """Notice what the user's own step and model do by themselves: autocast, a gradient scaler."""
    seen: set[str] = set()
    enter, scale = torch.autocast.__enter__, torch.amp.GradScaler.scale

    def note_autocast(self: Any) -> Any:
        seen.add("autocast")
        return enter(self)

    def note_scaler(self: Any, outputs: Any) -> Any:
        seen.add("scaler")
        return scale(self, outputs)

    torch.autocast.__enter__ = note_autocast  # type: ignore[method-assign]
    torch.amp.GradScaler.scale = note_scaler  # type: ignore[method-assign]
    try:
        yield seen
    finally:
        torch.autocast.__enter__ = enter  # type: ignore[method-assign]
        torch.amp.GradScaler.scale = scale  # type: ignore[method-assign]


def _probe_chain(training: Training, batch: Any) -> tuple[Chain | None, str | None]:
    """Return the chain that can be recomputed, or why none can: tried out, gradients compared."""
    workload = training.workload
    if workload.own_step:
        chain = find_chain(training.model, workload.checkpoint_blocks)
        return chain, None if chain else "the model has no chain of repeated blocks"
    return find_recomputable(training.model, partial(_gradients, training, batch), workload.checkpoint_blocks)


def _gradients(training: Training, batch: Any) -> dict[str, Tensor]:
    """Return the gradients of one step from the same state and random numbers each time."""
    model = training.model
    kept = Kept(model)
    for optimizer in training.optimizers:
        optimizer.zero_grad(set_to_none=True)
    seed_all(0)
    with training.tuned.autocast():
        loss = training.loss_step(model, training.loader.place(clone(batch)))
    loss.backward()
    found = {name: dense(item.grad) for name, item in model.named_parameters() if item.grad is not None}
    for optimizer in training.optimizers:
        optimizer.zero_grad(set_to_none=True)
    kept.restore()
    return found
