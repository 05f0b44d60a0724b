"""Loader workers that cannot send a batch end, and say why: left alone, the training process waits for it forever.

A worker's queue sends from a thread of its own, whose errors are printed and lost: no room in /dev/shm, no descriptor
left, an object in the batch that cannot be pickled.
"""

from __future__ import annotations

import multiprocessing.queues
import os
import signal
import time
import traceback
from typing import Any

from torch.utils.data import get_worker_info

from autotune.records import Outcome
from autotune.trials.outcomes import classify_error

SIGNAL_S = 10.0  # until a signal was delivered, on the busiest machine


def end_workers_that_cannot_send() -> None:
    """Let every loader worker that is forked from here end when it cannot send a batch."""
    multiprocessing.queues.Queue._on_queue_feeder_error = staticmethod(_cannot_send)  # type: ignore[attr-defined]


def _cannot_send(error: BaseException, batch: Any) -> None:
    traceback.print_exception(error)
    if get_worker_info() is None:
        return  # a queue of the script's own
    if classify_error(error).outcome is Outcome.OUT_OF_MEMORY:
        os.kill(os.getpid(), signal.SIGBUS)  # what the kernel sends where the segment was made, and cannot be filled
        time.sleep(SIGNAL_S)  # another thread may take it
    os._exit(1)
