"""Shared memory and open files that the loader's workers need."""

from __future__ import annotations

import resource
from collections.abc import Iterator

import psutil

from autotune.batches import nbytes, tensors
from autotune.doctor.context import Context
from autotune.doctor.findings import Finding, Gives, Sureness
from autotune.trials.preflight import FILES_BASE, FILES_PER_TENSOR, SHM_MARGIN
from autotune.words.figures import memory


def check(context: Context) -> Iterator[Finding]:
    session = context.session
    if not session.workers:
        return
    batch = context.cached[0]
    on_their_way = session.queue + session.workers
    needed, free = int(SHM_MARGIN * on_their_way * nbytes(batch)), context.machine.shm_free_bytes
    # the batches that were measured lie there no longer: all of it can be had
    if free is not None and needed > free:
        yield Finding(
            check="limits",
            gives=Gives.RESULT,
            seen=f"{on_their_way} batches on their way need {memory(needed)} of /dev/shm, and {memory(free)} are free",
            where=("/dev/shm",),
            remedy=("docker run --shm-size=8g", "or fewer num_workers, or a smaller prefetch_factor"),
            sure=Sureness.LIKELY,
            why="a worker that finds no shared memory dies with a bus error",
        )
    files = FILES_BASE + FILES_PER_TENSOR * sum(1 for _ in tensors(batch)) * (session.queue + 4)
    allowed = _open_files()
    if allowed < files:
        yield Finding(
            check="limits",
            gives=Gives.RESULT,
            seen=f"the loader's tensors need {files} open files, and {allowed} are allowed",
            where=("ulimit -n",),
            remedy=("ulimit -n 65536", "or one tensor instead of many in a sample"),
            sure=Sureness.LIKELY,
            why="torch passes each tensor from a worker as an open file; beyond the limit the loader fails",
        )


def _open_files() -> int:
    """Return the limit that the user's shell gives: the doctor's own processes have raised theirs."""
    lowest = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    for parent in psutil.Process().parents()[:2]:
        try:
            lowest = min(lowest, parent.rlimit(psutil.RLIMIT_NOFILE)[0])
        except psutil.Error:
            break
    return lowest
