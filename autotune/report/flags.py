"""What the flags of a measurement mean, in words. A flag never changes a number; it says how far to trust it."""

from __future__ import annotations

import string
from collections.abc import Iterable

FLAGS = {
    # the statistics of the window
    "noisy": "the times scatter: the window ended before its target uncertainty was reached",
    "bursty": "a few blocks took far longer than the rest: the mean is well above the median",
    "no_steady_state": "the step time still drifted when the window ended",
    "few_blocks": "steps are so slow that only a few blocks could be timed",
    "pruned": "clearly slower than the best so far, so the window was cut short",
    # the data
    "short_epoch": "an epoch is so short that whole epochs were timed, their restarts included",
    "prefetch_bias": "too little data to empty the prefetch queue first: the loader may look quicker than it is",
    "variable_shapes": "batches differ in shape: time and peak memory are those of the batches seen",
    "compiled_last_batch": "the last, smaller batch of each epoch was compiled by itself: drop_last would spare that",
    "recompiled": "torch.compile still compiled during the window, as for shapes that vary: the time is too long",
    "cache_filled_in_part": "the kept samples measured stand for a dataset too large to be read whole in a trial",
    "disk_reads": "data came from the disk during the window, not from the page cache alone",
    "script_rerun": "the script ended before the measurement did, and was run again in the same process",
    # the host
    "cpu_contended": "other programs used the cores during the window",
    "cpu_contended_hard": "other programs kept it waiting for a core over 30 % of the time: do not trust the time",
    "cpu_stolen": "the host of this virtual machine gave its cores to others during the window",
    "oversubscribed": "more compute threads and loader workers than usable cores",
    "cpu_quota_throttled": "the container's CPU quota stopped the processes during the window",
    "swapping": "the machine read memory back from swap during the window",
    "host_memory_growing": "host memory still grew, so that the peak of a long run is higher",
    # the accelerator
    "memory_pressure": "the allocator had to free its cache and retry: the time is not comparable, the memory is tight",
    "gpu_shared": "another process computed on the same card",
    "gpu_throttled": "the card lowered its clocks because of heat or power supply: do not trust the time",
    "power_capped": "the card ran at its power limit, which is normal at full load",
    # the search
    "drift": "the machine's speed changed while this was measured, as repeats of the baseline show",
}
"""one line of words for every flag that a measurement can carry"""

NO_WARNING = frozenset({"pruned", "power_capped", "cache_filled_in_part"})
"""flags that are no sign of anything wrong"""


def explain(flag: str) -> str:
    """Return the flag in words; one from a newer version speaks for itself."""
    return FLAGS.get(flag, flag.replace("_", " "))


def in_order(flags: Iterable[str]) -> list[str]:
    """Return the distinct flags in the registry's order, unknown ones last."""
    known = list(FLAGS)
    distinct = dict.fromkeys(flags)
    return sorted(distinct, key=lambda flag: known.index(flag) if flag in FLAGS else len(known))


def letters(flags: Iterable[str]) -> dict[str, str]:
    """Return a letter for each distinct flag, in the registry's order; those beyond z share it."""
    return dict(zip(in_order(flags), string.ascii_lowercase + "z" * len(FLAGS), strict=False))
