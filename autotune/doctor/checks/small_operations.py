"""Many tiny operations where one would do: loops over samples, heads or time steps. Technique 27."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from autotune.doctor.context import MIN_SHARE, Context
from autotune.doctor.findings import Finding, Sureness
from autotune.doctor.trace import GATHERING, Operation

RELATED = MIN_SHARE / 4  # of the compute, that a line must take to be named


def check(context: Context) -> Iterator[Finding]:
    trace = context.trace
    repeated = trace.repeated()
    shares = {line: context.share_of_lines({line}) for line in repeated}
    lines = sorted((line for line in repeated if shares[line] >= RELATED), key=lambda line: -shares[line])
    if not lines:
        return
    # batched, one remains of as many as do not need each other
    kept = max(noted.depth * trace.steps / noted.count for line in lines for noted in _computing(repeated[line]))
    gain = context.gain(context.share_of_lines(set(lines)) * (1 - kept) * context.ceilings.compute_s)
    worth = context.worth(gain)
    if worth is None:
        return
    counts: Counter[str] = Counter()
    for line in lines:
        counts.update({name: noted.count // trace.steps for name, noted in repeated[line].items()})
    most = ", ".join(f"{name} {times}x" for name, times in counts.most_common(3))
    yield Finding(
        check="small_operations",
        gives=worth,
        seen=f"{counts.total()} small operations a step come from {_few(len(lines))}: {most}",
        where=tuple(str(line) for line in lines),
        remedy=("One operation on the whole batch instead of a loop over its parts: x.mean(dim), torch.bmm",),
        gain=gain,
        sure=Sureness.LIKELY,
        why="each takes the host longer to start than the device to compute; torch.compile joins some of them, too",
    )


def _computing(operations: dict[str, Operation]) -> list[Operation]:
    """Return the operations without those that only gather results, where there are others."""
    return [noted for name, noted in operations.items() if name not in GATHERING] or [Operation(1)]


def _few(count: int) -> str:
    return "one line that is run in a loop" if count == 1 else f"{count} lines that are run in loops"
