"""What the probe finds out about the data: length, first batches, and what the loader can be asked for."""

from __future__ import annotations

import pickle
import statistics
import sys
import time
from collections.abc import Iterable, Iterator, Sized
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import BatchSampler, DataLoader, IterableDataset
from torch.utils.data._utils import worker

from autotune.batches import describe, map_tensors, shapes, tensors
from autotune.caching import why_not_cached
from autotune.config import Config
from autotune.device import on_host
from autotune.errors import AutotuneError, ScriptError, text_of
from autotune.measure.stream import no_batch
from autotune.measure.training import Training, seed_all
from autotune.outcomes import classify_error
from autotune.records import Outcome
from autotune.workload import accepts
from autotune.workload.script import brief, user_traceback

REREAD_S = 2.0  # for reading samples again, to see whether they stay the same
SHAPES_SEEN = 4  # batches looked at to see whether shapes vary
MAX_LOAD_S = 1.0  # for loading them


def dataset_length(training: Training) -> int | None:
    """Return the samples of an epoch; None where nobody knows."""
    return None if training.workload.pre_batched else epoch_length(training.loader.host)


def epoch_length(host: Any) -> int | None:
    """Return the samples of an epoch of a loader; None where nobody knows."""
    if not isinstance(host, DataLoader) or isinstance(host.dataset, IterableDataset):
        return None
    # a sampler decides how many samples an epoch has
    sampler: Any = host.sampler
    if host.batch_size is None:
        if type(host.batch_sampler) is not BatchSampler:
            return None
        sampler = host.batch_sampler.sampler
    return len(sampler) if isinstance(sampler, Sized) else None  # one without an end has no length


def first_batches(training: Training) -> tuple[list[Any], float]:
    """Return the first few batches in host memory, and the seconds that one takes to load."""
    try:
        return _load_batches(training)
    except Exception as error:
        raise_unless_users(error)
        text = text_of(error)
        uneven, unknown = "equal size" in text, text.startswith("default_collate")
        hint = "Give collate_fn=(samples) -> batch." if uneven or unknown else ""
        if uneven:
            hint = (
                "Samples differ in size, and the default collate function stacks them. " + hint[:-1] + ", to pad them."
            )
        message = f"the first batch cannot be loaded: {brief(error)}"
        raise ScriptError(message, hint=hint, traceback=user_traceback(error)) from error


def take_batches(loader: Iterable[Any]) -> tuple[list[Any], float]:
    """Return up to `SHAPES_SEEN` batches, and the seconds that one takes once the first is there."""
    batches: list[Any] = []
    took: list[float] = []
    began = at = time.perf_counter()
    for batch in loader:
        now = time.perf_counter()
        batches.append(batch)
        took.append(now - at)
        if len(batches) == SHAPES_SEEN or now - began > MAX_LOAD_S:
            break
        at = time.perf_counter()
    # the first one pays for the iterator, the order of the samples and cold caches
    return batches, statistics.median(took[1:] or took) if took else 0.0


def _load_batches(training: Training) -> tuple[list[Any], float]:
    batches, load_s = take_batches(training.loader.host)
    if not batches:
        raise no_batch()
    return batches, load_s


def why_batch_is_fixed(training: Training, batch: Any, batch_size: int, length: int | None) -> str | None:
    """Return why another batch size changes nothing, found by looking at a batch of half the size."""
    if next(tensors(batch), None) is None:
        return None  # objects that cannot be looked into
    top = batch_size if length is None else min(batch_size, length)
    if top < 2:
        return None
    try:
        larger, smaller = (_first_batch(training, size) for size in (top, top // 2))
    except Exception:
        return None  # this size alone fails; the trials will say so where it matters
    if (shapes(larger), describe(larger)) != (shapes(smaller), describe(smaller)):
        return None
    return "the batch size has no effect: the loader decides it itself"


def _first_batch(training: Training, batch_size: int) -> Any:
    seed_all(0)  # the same order each time, so that samples of different sizes can be compared
    if training.workload.pre_batched:
        return next(iter(Training(training.workload, Config(batch_size=batch_size), device="cpu").loader.host))
    return next(iter(training.make_loader(batch_size=batch_size).host))


def on_accelerator(batch: Any) -> bool:
    """Whether a batch of the loader holds tensors that lie on an accelerator already."""
    return not all(on_host(tensor) for tensor in tensors(batch))


def why_no_workers(training: Training, batch: Any) -> str | None:
    """Return why loader processes cannot be used, or None."""
    workload, dataset = training.workload, training.dataset
    if workload.loader is not None and not accepts(workload.loader, "num_workers"):
        return "loader() takes no num_workers"
    if workload.pre_batched and not isinstance(training.loader.host, DataLoader):
        return "the dataset yields its batches itself, without a DataLoader"
    if on_accelerator(batch):
        return "the dataset holds tensors on the accelerator, which loader processes cannot share"
    if isinstance(dataset, IterableDataset) and _repeats_in_workers(dataset):
        return (
            "each loader worker would yield the same samples again: the dataset does not share them out "
            "by torch.utils.data.get_worker_info()"
        )
    if next(_device_tensors(dataset), None) is not None:
        return "the dataset holds tensors on the accelerator, which loader processes cannot share"
    return None


def why_fork_only(training: Training) -> str | None:
    """Return why a loader process that is not forked could not be given the dataset, or None."""
    workload, dataset = training.workload, training.dataset
    if workload.loader is not None:
        return None  # what its workers are sent is not known here
    for part in (dataset, workload.collate_fn):
        try:
            pickle.dumps(part)
        except Exception as error:
            return f"the dataset cannot be sent to loader processes: {brief(error)}"
        if (file := _not_importable(part)) is not None:
            return f"loader processes cannot import {file}: no module can have that name"
    return None


def probe_cache(training: Training) -> tuple[str | None, int]:
    """Return why the samples cannot be kept after they were first read, or None, and the bytes that one takes."""
    if training.workload.loader is not None or training.workload.pre_batched:
        return "the loader or its batches are your own: there are no samples to keep", 0
    end = time.perf_counter() + REREAD_S
    return why_not_cached(training.dataset, within=lambda: time.perf_counter() < end)


def _device_tensors(dataset: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors that a dataset holds on an accelerator."""
    held = vars(dataset) if hasattr(dataset, "__dict__") else {}
    return (tensor for tensor in tensors(dict(held)) if not on_host(tensor))


def _not_importable(part: Any) -> str | None:
    """Return the script that defines `part`, where a new process would not find it under its module's name."""
    name = getattr(part, "__module__", None) or type(part).__module__
    if name == "__main__":
        return None  # multiprocessing runs the script again in a worker, under another name
    file = getattr(sys.modules.get(name), "__file__", None)
    if file is None or "." in name:
        return None
    found = PathFinder.find_spec(name)
    return None if found is not None and found.origin == file else Path(file).name


def _repeats_in_workers(dataset: Any) -> bool:
    """Whether the first two of several workers begin with the same sample."""
    found: list[Any] = []
    try:
        for number in range(2):
            seed_all(number)  # as in workers, each of which has a seed of its own
            worker._worker_info = worker.WorkerInfo(id=number, num_workers=2, seed=number, dataset=dataset)
            found.append(next(iter(dataset)))
        return _equal(*found)
    except Exception:
        return False  # nothing left for the second one, or nothing that can be compared
    finally:
        worker._worker_info = None


def _equal(first: Any, second: Any) -> bool:
    pairs = zip(tensors(first), tensors(second), strict=True)
    rest = [pickle.dumps(map_tensors(item, lambda _: None)) for item in (first, second)]
    return all(torch.equal(*pair) for pair in pairs) and rest[0] == rest[1]


def raise_unless_users(error: Exception) -> None:
    """Raise what says by itself what it is: our own errors, and those of memory."""
    if isinstance(error, AutotuneError) or classify_error(error).outcome is not Outcome.ERROR:
        raise error
