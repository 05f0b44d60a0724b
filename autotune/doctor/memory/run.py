"""The steering side of `autotune memory`: an account, and the batch size that fits into a limit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from autotune.config import Config
from autotune.doctor.look import Look
from autotune.doctor.memory.account import Account, Fit, MemoryReport, Tried
from autotune.errors import DoesNotFit
from autotune.options.base import Value
from autotune.records import Outcome
from autotune.words.figures import memory

MAX_RUNS = 6  # to find the batch size that fits
GRAIN = 8  # batch sizes of more than this are multiples of it
MOST = 16  # times a batch size that was run: no line holds further


def account_for(
    look: Look, *, config: Config | None = None, baseline: Mapping[str, Value] | None = None, limit: int | None = None
) -> MemoryReport:
    """Account for the memory of a step, and find the largest batch size that fits into `limit` bytes.

    Raises:
        ScriptError: the user's code failed; carries its traceback.
        WorkloadError: the workload cannot be trained as it is.
        DoesNotFit: not even one sample fits.
    """
    values = dict(config or {})
    account = look.at(Account, "memory", values, dict(baseline or {}))
    if limit is None:
        return MemoryReport(account=account)
    if account.fixed_batch:
        return MemoryReport(account=account, notes=(f"no batch size is looked for: {account.fixed_batch}",))
    return MemoryReport(account=account, fit=_fit(look, account, limit))


def _fit(look: Look, account: Account, limit: int) -> Fit:
    most = account.dataset_length
    tried = [Tried(batch_size=account.batch_size, predicted=None, needed=account.needed)]
    for size, predicted in _sizes(tried, limit, most):
        values = {**account.config, "batch_size": size}
        found = look.attempt(Account, "memory", values)
        ran_out = found.outcome is Outcome.OUT_OF_MEMORY
        if found.result is None and not ran_out:
            raise found.error
        tried.append(Tried(batch_size=size, predicted=predicted, needed=found.result.needed if found.result else None))
    fitting = [one for one in tried if one.needed is not None and one.needed <= limit]
    if not fitting:
        least = min(tried, key=lambda one: one.batch_size)
        needs = "ran out of memory" if least.needed is None else f"needs {memory(least.needed)}"
        raise DoesNotFit(
            f"nothing fits into {memory(limit)}: a batch of {least.batch_size} {needs}",
            hint="A larger --memory-limit, or less that does not depend on the batch: a smaller model, a plainer "
            "optimizer, fewer loader workers.",
        )
    best = max(fitting, key=lambda one: one.batch_size)
    fixed, each = _line(tried, limit)
    return Fit(
        limit=limit,
        batch_size=best.batch_size,
        fixed_bytes=fixed,
        sample_bytes=each,
        tried=tuple(tried),
        bound="the dataset has no more samples" if most is not None and best.batch_size >= most else "",
    )


def _sizes(tried: list[Tried], limit: int, most: int | None) -> Iterator[tuple[int, int | None]]:
    """Yield the batch sizes to run, with what is predicted of each; `tried` grows by what came of them."""
    first = tried[0].batch_size
    second = max(1, first // 2) if tried[0].needed is not None and tried[0].needed > limit else 2 * first
    second = min(second, most or second)
    if second == first and first > 1:
        second = first // 2
    if second != first:
        yield second, None
    while len(tried) < MAX_RUNS:
        known = {one.batch_size for one in tried}
        fits = [one for one in tried if one.needed is not None and one.needed <= limit]
        fails = [one.batch_size for one in tried if one.needed is None or one.needed > limit]
        low = max((one.batch_size for one in fits), default=0)
        high = min((size for size in fails if size > low), default=None)
        fixed, each = _line(tried, limit)
        size = MOST * max(known) if each <= 0 else int((limit - fixed) / each)
        size = min(size, MOST * max(known), most or size)
        if high is not None and size >= high:  # the line was wrong there: half way
            size = (low + high) // 2
        size = max(1, _grained(size) if size != most else size)
        if size in known or size <= low:
            return
        yield size, round(fixed + each * size)


def _grained(size: int) -> int:
    return size // GRAIN * GRAIN if size >= GRAIN else size


def _line(tried: list[Tried], limit: int) -> tuple[float, float]:
    """Return fixed bytes and bytes a sample through the two runs nearest to the limit."""
    known = sorted((one for one in tried if one.needed is not None), key=lambda one: abs((one.needed or 0) - limit))[:2]
    if len(known) < 2:
        return 0.0, float(known[0].needed or 0) / known[0].batch_size if known else 0.0
    (a, b) = known
    each = ((a.needed or 0) - (b.needed or 0)) / (a.batch_size - b.batch_size)
    return (a.needed or 0) - each * a.batch_size, each


def with_snapshot(report: MemoryReport, path: str) -> MemoryReport:
    """Return the report with the snapshot where it was moved to."""
    return replace(report, account=replace(report.account, snapshot=path))
