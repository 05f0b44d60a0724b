"""The same samples for every run: a fixed list of batches, drawn once under a fixed seed and without workers."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import default_collate

from autotune.batches import clone, map_tensors, tensors
from autotune.config import Config
from autotune.measure.training import Training, seed_all
from autotune.workload import Workload


class Unchecked(Exception):
    """The comparison cannot be made; says why."""


class FixedBatches:
    """The first batches of the baseline's loader, whole or in equal parts."""

    def __init__(self, whole: list[Any], collate: Callable[[list[Any]], Any] | None, seed: int) -> None:
        """`whole`: batches, or lists of samples where `collate` makes the batches."""
        self._whole, self._collate, self._seed = whole, collate, seed

    def parts(self, index: int, count: int) -> list[Any]:
        """Return batch number `index` (they repeat where data are few) in `count` parts, each a new copy.

        Raises:
            Unchecked: it cannot be divided.
        """
        batch = self._whole[index % len(self._whole)]
        if self._collate is None:
            return [clone(batch)] if count == 1 else _split(clone(batch), count)
        seed_all(self._seed)  # a collate function may draw
        size = len(batch) // count
        pieces = [batch[start : start + size] for start in range(0, size * count, size)]
        return [self._collate([clone(sample) for sample in piece]) for piece in pieces]


def take_batches(
    workload: Workload, config: Config, parts: int, *, steps: int, device: str, seed: int
) -> tuple[FixedBatches, Workload]:
    """Return the batches of `steps` steps, and the workload with its dataset built, so that it is built once.

    Args:
        parts: into how many parts each batch must divide.

    Raises:
        Unchecked: there are no batches, or none that can be divided so.
    """
    samples = parts > 1 and workload.loader is None and not workload.pre_batched
    training = Training(workload, config, device=device, seed=seed)
    with training.tuned:
        if samples:
            training.workload = dataclasses.replace(workload, collate_fn=list)
            training.loader = training.make_loader()
        seed_all(seed)
        whole = [clone(batch) for batch in itertools.islice(training.loader.host, steps)]
        dataset = training.dataset
    if not whole:
        raise Unchecked("the loader yields no batch")
    collate = (workload.collate_fn or default_collate) if samples else None
    if collate is not None:
        whole = [batch[: len(batch) // parts * parts] for batch in whole if len(batch) >= parts]
        if not whole:
            raise Unchecked(f"a batch of the baseline has fewer than {parts} samples")
        if _draws(collate, whole[0]):
            raise Unchecked("collate_fn draws random numbers, so that parts of a batch cannot hold the same samples")
    return FixedBatches(whole, collate, seed), _with_data(workload, dataset, whole)


def _with_data(workload: Workload, dataset: Any, batches: list[Any]) -> Workload:
    if workload.loader is not None:
        return dataclasses.replace(workload, loader=lambda batch_size: batches)
    if workload.pre_batched:
        return dataclasses.replace(workload, dataset=lambda batch_size: dataset)
    return dataclasses.replace(workload, dataset=lambda: dataset)


def _draws(collate: Callable[[list[Any]], Any], samples: list[Any]) -> bool:
    """Whether a collate function makes other batches of the same samples under another seed."""
    made = []
    for seed in (1, 2):
        seed_all(seed)
        made.append(list(tensors(collate([clone(sample) for sample in samples]))))
    return any(not torch.equal(first, second) for first, second in zip(*made, strict=True))


def _split(batch: Any, count: int) -> list[Any]:
    """Divide a batch whose tensors all have the samples in their first dimension."""
    sizes = {tensor.size(0) if tensor.dim() else 0 for tensor in tensors(batch)}
    if len(sizes) != 1 or min(sizes) < count or min(sizes) % count:
        raise Unchecked("the batches come whole and cannot be divided into micro batches")
    size = min(sizes) // count

    def part(index: int) -> Any:
        def cut(tensor: Tensor) -> Tensor:
            return tensor[index * size : (index + 1) * size]

        return map_tensors(batch, cut)

    return [part(index) for index in range(count)]
