"""Results that the host waits for in the step: .item(), printing, masks, copies to the host. Technique 30."""

from __future__ import annotations

from collections.abc import Iterator

from autotune.doctor.context import Context
from autotune.doctor.findings import Finding, Gives, counted
from autotune.doctor.lines import Line
from autotune.doctor.trace import SIZED_BY_DATA

BY_DATA = {f"{name}()" for name in SIZED_BY_DATA} | {"indexing by a mask", "where() of a condition alone"}


def check(context: Context) -> Iterator[Finding]:
    trace = context.trace
    found: dict[Line, list[str]] = {}
    count = 0
    for (what, line), times in (trace.reads + trace.copies).items():
        if what == "to the device" or times < trace.steps:
            continue  # not in every step; and data that goes to the device is another check's
        found.setdefault(line, []).append("a copy to the host" if what == "to the host" else what)
        count += times // trace.steps
    if not found:
        return
    kinds = dict.fromkeys(what for places in found.values() for what in places)
    idle_s = _idle_s(context)
    gain = context.gain(idle_s)
    here = context.on_accelerator and context.worth(gain) is not None
    yield Finding(
        check="synchronisations",
        gives=Gives.SPEED if here else Gives.ACCELERATOR,
        seen=f"the host waits for a result {counted(count, 'time', 'times')} in each step: {', '.join(kinds)}",
        where=tuple(str(line) for line in sorted(found, key=lambda line: -_times(context, line))),
        remedy=_remedy(set(kinds)),
        gain=gain,
        why="an accelerator runs behind the host; each wait lets it run dry until the host has started new work",
    )


def _times(context: Context, line: Line) -> int:
    return sum(times for (_, place), times in (context.trace.reads + context.trace.copies).items() if place == line)


def _idle_s(context: Context) -> float:
    """Return the seconds of a step in which an accelerator has nothing to do."""
    busy = context.ceilings.device_busy_s
    return 0.0 if busy is None else max(0.0, context.ceilings.compute_s - busy)


def _remedy(kinds: set[str]) -> tuple[str, ...]:
    lines = []
    if kinds - BY_DATA:
        lines.append("total += loss.detach()  # keep sums on the device, and read them every 100 steps")
    if kinds & BY_DATA:
        lines.append("torch.where(mask, a, b)  # sizes that do not depend on the data need no wait")
    return tuple(lines)
