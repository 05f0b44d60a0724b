"""Tensors made on the host in the step and then moved to the device. Technique 31."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from autotune.doctor.context import Context
from autotune.doctor.findings import Finding, Gives, counted
from autotune.doctor.lines import Line


def check(context: Context) -> Iterator[Finding]:
    trace = context.trace
    lines: Counter[Line] = Counter()
    kinds: dict[str, None] = {}
    for (factory, line), times in trace.moved.items():
        if times >= trace.steps:
            lines[line] += times // trace.steps
            kinds[f"torch.{factory}()"] = None
    if not lines:
        return
    share = context.share_of_lines(set(lines), forward_only=True)
    gain = context.gain(share * context.ceilings.compute_s)
    yield Finding(
        check="host_tensors",
        gives=context.worth(gain) or Gives.ACCELERATOR,
        seen=f"{counted(lines.total(), 'tensor is', 'tensors are')} made on the host in each step and then moved: "
        + ", ".join(kinds),
        where=tuple(str(line) for line, _ in lines.most_common()),
        remedy=(
            f"{next(iter(kinds)).removesuffix('()')}(..., device=x.device)  # made where it is used",
            "or, where it is always the same: self.register_buffer('name', tensor, persistent=False), once",
        ),
        gain=gain,
        why="each copy from ordinary host memory makes the host wait for the device",
    )
