"""Loader workers that cannot send a batch end, and say why: left alone, the training process waits for it forever.

A worker's queue sends from a thread of its own, whose errors are printed and lost: no room in /dev/shm, no descriptor
left, an object in the batch that cannot be pickled.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.queues
import os
import signal
import time
import traceback
from collections.abc import Callable
from functools import cache
from typing import Any

from torch.utils.data import get_worker_info
from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter

from autotune.outcomes import classify_error
from autotune.records import Outcome

SIGNAL_S = 10.0  # until a signal was delivered, on the busiest machine


@cache
def end_workers_that_cannot_send() -> None:
    """Let every loader worker of this process end when it cannot send a batch, however it is started."""
    _end_this_one()  # forked workers inherit it
    begin = _MultiProcessingDataLoaderIter.__init__

    def begin_workers(workers: Any, loader: Any) -> None:
        context, own = loader.multiprocessing_context or multiprocessing, loader.worker_init_fn
        if context.get_start_method() == "fork":
            begin(workers, loader)
            return
        loader.worker_init_fn = Told(own)
        try:
            begin(workers, loader)
        finally:
            loader.worker_init_fn = own

    _MultiProcessingDataLoaderIter.__init__ = begin_workers  # type: ignore[method-assign,assignment]


class Told:
    """A worker_init_fn, for workers that begin with a fresh interpreter: it can be pickled where the user's own can."""

    def __init__(self, own: Callable[[int], None] | None) -> None:
        self.own = own

    def __call__(self, worker: int) -> None:
        _end_this_one()
        if self.own is not None:
            self.own(worker)


def _end_this_one() -> None:
    multiprocessing.queues.Queue._on_queue_feeder_error = staticmethod(_cannot_send)  # type: ignore[attr-defined]


def _cannot_send(error: BaseException, batch: Any) -> None:
    traceback.print_exception(error)
    if get_worker_info() is None:
        return  # a queue of the script's own
    if classify_error(error).outcome is Outcome.OUT_OF_MEMORY:
        os.kill(os.getpid(), signal.SIGBUS)  # what the kernel sends where the segment was made, and cannot be filled
        time.sleep(SIGNAL_S)  # another thread may take it
    os._exit(1)
