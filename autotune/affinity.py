"""Cores of their own for the training process and for its loader workers."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Set
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch

from autotune.machine import remember_cores


@dataclass(frozen=True)
class KeepTo:
    """A DataLoader's worker_init_fn: keeps the worker to some cores, then calls the user's own."""

    cores: frozenset[int]
    init: Callable[[int], None] | None = None

    def __call__(self, worker: int) -> None:
        os.sched_setaffinity(0, self.cores)
        if self.init is not None:
            self.init(worker)


def keep_to(cores: Set[int]) -> Callable[[], None]:
    """Keep this process, with all of its threads, to some cores; returns how to set that back.

    More compute threads than cores would wait for each other at every operation, so there are no more.
    """
    before, threads = os.sched_getaffinity(0), torch.get_num_threads()
    remember_cores(before)
    _set_all(cores)
    torch.set_num_threads(min(threads, len(cores)))
    # PyTorch compares the workers with the cores of this process alone
    warnings.filterwarnings("ignore", "This DataLoader will create")
    filters: Any = warnings.filters
    quiet = filters[0]

    def restore() -> None:
        remember_cores(None)
        with suppress(ValueError):
            filters.remove(quiet)
        _set_all(before)
        torch.set_num_threads(threads)

    return restore


def _set_all(cores: Set[int]) -> None:
    """Set the affinity of every thread: the kernel keeps one for each, and new ones take that of their parent."""
    for name in os.listdir("/proc/self/task"):
        with suppress(ProcessLookupError):  # it ended meanwhile
            os.sched_setaffinity(int(name), cores)
