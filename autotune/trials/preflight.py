"""What can be known before a trial starts: shared memory and open files that its loader workers will need."""

from __future__ import annotations

import resource
import shutil

from autotune.config import Config
from autotune.facts import Facts
from autotune.records import Failure, Outcome

SHM_MARGIN = 1.5  # batches in flight are W*PF, plus one in each worker's hands; the rest is for fragmentation
FILES_BASE = 64
FILES_PER_TENSOR = 2  # torch passes each tensor as a descriptor, held at both ends


def preflight(config: Config, facts: Facts, shm_free_bytes: int | None = None) -> tuple[Outcome, Failure] | None:
    """Return why the config cannot run here, or None."""
    workers = int(config.value("num_workers"))
    if workers == 0:
        return None
    queued = workers * int(config.value("prefetch_factor"))
    return _shared_memory(config, facts, queued + workers, shm_free_bytes) or _files(facts, queued)


def _shared_memory(
    config: Config, facts: Facts, batches: int, free_bytes: int | None
) -> tuple[Outcome, Failure] | None:
    if free_bytes is None:
        try:
            free_bytes = shutil.disk_usage("/dev/shm").free
        except OSError:
            return None
    needed = int(SHM_MARGIN * batches * int(config.value("batch_size")) * facts.sample_bytes)
    if needed <= free_bytes:
        return None
    message = (
        f"{batches} batches on their way need {needed >> 20} MiB of /dev/shm, and {free_bytes >> 20} MiB are free. "
        "Enlarge it (docker run --shm-size=8g), or use fewer workers or a smaller prefetch_factor."
    )
    return Outcome.OUT_OF_MEMORY, Failure(reason="out of shared memory", message=message, phase="preflight")


def _files(facts: Facts, queued: int) -> tuple[Outcome, Failure] | None:
    needed = FILES_BASE + FILES_PER_TENSOR * facts.tensors_per_batch * (queued + 4)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)  # trials get the hard limit: see the fork server
    if hard == resource.RLIM_INFINITY or needed <= hard:
        return None
    message = f"{needed} open files are needed, {hard} are allowed: raise the limit (ulimit -n), or use fewer workers."
    return Outcome.UNSUPPORTED, Failure(reason="too many open files", message=message, phase="preflight")
