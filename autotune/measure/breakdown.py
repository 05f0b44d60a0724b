"""What a step is made of: compute with the loader idle, memory, and what an epoch's restart costs."""

from __future__ import annotations

import gc
import itertools
import math
import time
from collections.abc import Mapping

from autotune.batches import clone, nbytes
from autotune.measure.session import Session
from autotune.measure.stream import Fetched
from autotune.measure.validity import UpdateCounter
from autotune.records import Peaks

CACHED_BATCHES = 4
CACHED_BYTES = 128 << 20  # of batches larger than that together, fewer: a trial that fits must go on fitting
CACHED_BLOCKS = 8
CACHED_S = 1.0
MAX_IDLE_S = 5.0
MEMORY_STEPS = 5
# of these, before the sample. A training has a full collection now and then, which writes into every object and so
# unshares its page with the workers; else the peak would tell whether a worker was there at the last one. More than
# one, since the first may meet the end of an epoch, and no worker.
COLLECTED_STEPS = 2
MAX_SMALL_STEPS = 24  # for an update of each optimizer: fp16 skips the first ones until its scale fits
GROWTH = 0.02  # by which workers grow over the window, relative to the tree's proportional size
NEGLIGIBLE_RESTART = 0.002  # an epoch's restart below this share of the epoch is not measured apart


def cached_compute(session: Session) -> float:
    """Time the same step on batches that are there already, with the loader idle; seconds a step."""
    began = session.clock()
    session.progress("cached compute", {})
    cached = _cached(session)
    if session.workers:
        # the workers fill the queue meanwhile: about as long as they need for it at their own pace
        pace_s = session.loader_s or max((wait for _, wait in session.recent), default=0.0)
        time.sleep(min(MAX_IDLE_S, 0.1 + pace_s * session.queue))
    # so many that each measured stretch holds whole updates
    passes = math.lcm(len(cached), session.accumulation) // len(cached)
    steps = passes * len(cached)
    times: list[float] = []
    while not times or (len(times) < CACHED_BLOCKS and sum(times) * steps < CACHED_S):
        times.append(sum(_pass(session, cached) for _ in range(passes)) / steps)
    session.seconds["cached_s"] = session.clock() - began
    return sorted(times)[len(times) // 2]


def _cached(session: Session) -> list[Fetched]:
    """Return batches to keep: few where they are large, yet one that is on its way while another is worked on."""
    first = session.stream.next()
    fitting = CACHED_BYTES // max(1, nbytes(first.host))
    count = max(1 + session.ahead, min(CACHED_BATCHES, fitting))
    return [first, *(session.stream.next() for _ in range(count - 1))]


def _pass(session: Session, cached: list[Fetched]) -> float:
    """Return the seconds of a step on each of the batches."""
    copies = [clone(fetched.host) for fetched in cached]  # a step may change its batch in place
    session.device.synchronize()
    at = session.clock()
    for batch, fetched in zip(session.training.loader.over(copies), cached, strict=True):
        session.training.step(batch, fetched.samples)
    session.device.synchronize()
    return session.clock() - at


def memory_peaks(
    session: Session, host_peak: int, own_before: Mapping[int, int], shared: int = 0
) -> tuple[Peaks, Peaks]:
    """Run a few more steps under readings that are too slow for a timed window.

    Args:
        host_peak: steady peak at the end of the window, bytes.
        own_before: what each worker shared with no other process before the window, bytes by its number.
        shared: host memory that belongs to the training and to no process of it, bytes.

    Returns:
        The steady and the lifetime peaks.
    """
    began = session.clock()
    session.progress("memory", {})
    for number in range(MEMORY_STEPS):
        session.step(session.stream.next())
        if number < COLLECTED_STEPS:
            gc.collect()
        session.host_memory.sample_tree()
    own, tree = session.host_memory.own_of_workers(), session.host_memory.tree_pss
    # a worker started anew since then is no growth: what it comes to in an epoch has been seen
    if sum(own[number] - before for number, before in own_before.items() if number in own) > GROWTH * tree:
        session.flag("host_memory_growing")
    session.device.synchronize()
    host = max(host_peak, session.host_memory.steady_peak())
    now, ever = session.device.peaks(), session.device.lifetime_peaks()
    if tree:
        tree += shared
    steady = Peaks(host=host + shared, tree_pss=tree, allocated=now.allocated, reserved=now.reserved)
    lifetime = Peaks(
        host=session.host_memory.lifetime_peak(host) + shared,
        tree_pss=tree,
        allocated=ever.allocated,
        reserved=ever.reserved,
    )
    session.seconds["memory_s"] = session.clock() - began
    return steady, lifetime


def small_batch_peak(session: Session, batch_size: int) -> Peaks | None:
    """Run a few steps at a small batch size before anything else, and return their peak.

    With the peak at the trial's own batch size this gives the memory line of all sizes between and beyond. None where
    the batch size is not ours to choose.
    """
    if not session.divisible or session.fixed_batch:
        return None
    session.progress("small batch", {})
    training = session.training
    if len(training.dataset) < batch_size:
        return None
    loader = training.make_loader(samples=batch_size, batch_size=batch_size)
    counter = UpdateCounter(training)
    has_state = False
    for batch in itertools.chain.from_iterable(itertools.repeat(loader.host, MAX_SMALL_STEPS)):
        training.step(loader.place(batch))
        training.end_epoch()  # an update for each, or the optimizer's state would be missing
        if has_state:
            break
        has_state = counter.effective > 0  # in the next step
    counter.remove()
    session.device.synchronize()
    found = session.device.peaks()
    peak = Peaks(host=session.host_memory.steady_peak(), allocated=found.allocated, reserved=found.reserved)
    session.host_memory.reset_peak()
    session.device.reset_peaks()
    return peak if has_state else None


def epoch_overhead(session: Session, step_s: float, wait_s: float) -> tuple[float, bool]:
    """Return what an epoch costs beyond its steps, in seconds, and whether that is an estimate.

    At a restart all workers begin a batch at once, and after it all their batches are there at once: what is waited
    then stands for the waits of as many steps as there are workers.

    Args:
        step_s: seconds a step.
        wait_s: of these, the wait for the batch.
    """
    began = session.clock()
    session.progress("epoch restart", {})
    restart_s, estimated = _restart(session, step_s)
    session.seconds["epoch_s"] = session.clock() - began
    return max(0.0, restart_s - max(session.workers, 1) * wait_s), estimated


def _restart(session: Session, step_s: float) -> tuple[float, bool]:
    """Return the seconds from the last step of an epoch to the first batch of the next."""
    seen = session.stream.boundaries
    if seen:
        return sorted(seen)[len(seen) // 2], False
    first_s = session.stream.first_batch_s
    epoch = session.stream.steps_per_epoch
    negligible = epoch is None or first_s < NEGLIGIBLE_RESTART * epoch * step_s
    if negligible or not session.divisible:
        return first_s, True
    return _measured_restart(session), False


def _measured_restart(session: Session) -> float:
    """Time a restart on a second loader, over a part of the data that ends by itself.

    Restarting the first one in mid-epoch would wait for the batches in flight.
    """
    training = session.training
    batches = min(len(training.dataset) // training.batch_size, session.queue + 2)
    count = min(max(1, batches) * training.batch_size, len(training.dataset))
    stream = session.open_stream(training.make_loader(samples=count), count)
    while not stream.boundaries:
        stream.next()
    stream.close()
    return stream.boundaries[0]
