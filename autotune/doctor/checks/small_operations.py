"""Many tiny operations where one would do: loops over samples, heads or time steps. Technique 27."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from autotune.doctor.context import MIN_SHARE, Context
from autotune.doctor.findings import Finding, Sureness
from autotune.doctor.kinds import NO_KERNELS
from autotune.doctor.lines import Line

MIN_REPEATS = 16  # of one operation at one line in a step
SMALL_ELEMENTS = 1 << 14  # of an output: below it, starting the operation takes longer than computing it


def check(context: Context) -> Iterator[Finding]:
    trace = context.trace
    repeated: dict[Line, Counter[str]] = {}
    for (name, line, backward), noted in trace.operations.items():
        repeats = noted.count // trace.steps
        if backward or line is None or name in NO_KERNELS or repeats < MIN_REPEATS:
            continue
        if noted.elements / noted.count <= SMALL_ELEMENTS:
            repeated.setdefault(line, Counter())[name] += repeats
    lines = [line for line in repeated if context.share_of_lines({line}) >= MIN_SHARE / 4]
    if not lines:
        return
    # of as many equal operations, one remains
    kept = 1 / min(max(repeated[line].values()) for line in lines)
    share = context.share_of_lines(set(lines)) * (1 - kept)
    gain = context.gain(share * context.ceilings.compute_s)
    worth = context.worth(gain)
    if worth is None:
        return
    lines.sort(key=lambda line: -context.share_of_lines({line}))
    counts: Counter[str] = sum((repeated[line] for line in lines), Counter())
    most = ", ".join(f"{name} {times}x" for name, times in counts.most_common(3))
    yield Finding(
        check="small_operations",
        gives=worth,
        seen=f"{counts.total()} small operations a step come from {_few(len(lines))}: {most}",
        where=tuple(str(line) for line in lines),
        remedy=("One operation on the whole batch instead of a loop: torch.stack the inputs once, then compute",),
        gain=gain,
        sure=Sureness.LIKELY,
        why="each takes the host longer to start than the device to compute; torch.compile joins some of them, too",
    )


def _few(count: int) -> str:
    return "one line that is run in a loop" if count == 1 else f"{count} lines that are run in loops"
