"""Kinds of operation that cost more than their arithmetic: depthwise, element-wise, copies. Technique 34."""

from __future__ import annotations

from collections.abc import Iterator

from torch import nn
from torch.nn.modules.conv import _ConvNd

from autotune.doctor.context import Context
from autotune.doctor.findings import Finding, Sureness
from autotune.doctor.kinds import ELEMENTWISE, GROUPED, kind_of
from autotune.doctor.lines import Line

GROUPED_SHARE = 0.30  # of the compute
OVER_ARITHMETIC = 3.0  # times its share of the arithmetic
ELEMENTWISE_SHARE = 0.50
COPY_SHARE = 0.25
SHOWN_SHARE = 0.02  # of a line, to be named
FUSED = 0.5  # of the time of element-wise operations goes where neighbours are joined into one pass
AS_DENSE = 0.5  # of the time of depthwise convolutions at most, as their dense replacements cost arithmetic too


def check(context: Context) -> Iterator[Finding]:
    shares = context.ceilings.kinds
    yield from _grouped(context, shares.get(GROUPED, 0.0))
    yield from _copies(context, shares.get("copy", 0.0))
    yield from _elementwise(context, shares.get(ELEMENTWISE, 0.0))


def _grouped(context: Context, share: float) -> Iterator[Finding]:
    names = {
        name: module
        for name, module in context.training.model.named_modules()
        if isinstance(module, _ConvNd) and module.groups > 1
    }
    if share < GROUPED_SHARE or not names:
        return
    arithmetic = _arithmetic_share(context, set(names))
    if share < OVER_ARITHMETIC * arithmetic:
        return
    gain = context.gain(AS_DENSE * share * context.ceilings.compute_s)
    worth = context.worth(gain)
    if worth is not None:
        yield Finding(
            check="operation_kinds",
            gives=worth,
            seen=f"{len(names)} depthwise or grouped convolutions take {share:.0%} of the compute "
            f"for {arithmetic:.0%} of the arithmetic",
            where=tuple(context.place(name) for name in names),
            remedy=("Fewer groups, or dense convolutions with fewer channels in the first stages (changes the model)",),
            gain=gain,
            sure=Sureness.POSSIBLE,
            why="they move much memory for little arithmetic; half of their time is taken for the bound",
        )


def _arithmetic_share(context: Context, grouped: set[str]) -> float:
    """Return the share of the multiplications of convolutions and linear layers that grouped convolutions do."""
    here = everywhere = 0.0
    for call in context.calls.per_step():
        module = call.module
        if isinstance(module, _ConvNd):
            work = float(call.elements * module.weight[0].numel())
        elif isinstance(module, nn.Linear):
            work = float(call.elements * module.in_features)
        else:
            continue
        everywhere += work
        here += work if call.name in grouped else 0.0
    return here / everywhere if everywhere else 0.0


def _copies(context: Context, share: float) -> Iterator[Finding]:
    found = _large(context, "copy")
    share = min(share, sum(found.values()))
    gain = context.gain(share / 2 * context.ceilings.compute_s)
    worth = context.worth(gain)
    if share >= COPY_SHARE and worth is not None:
        yield Finding(
            check="operation_kinds",
            gives=worth,
            seen=f"copying tensors takes {share:.0%} of the compute",
            where=_places(found),
            remedy=("Views instead of copies: expand() for repeat(), one torch.cat for many, no .contiguous()",),
            gain=gain,
            sure=Sureness.POSSIBLE,
            why="half of the copies' time is taken for the bound",
        )


def _elementwise(context: Context, share: float) -> Iterator[Finding]:
    found = _large(context, ELEMENTWISE)
    share = min(share, sum(found.values()))
    gain = context.gain(FUSED * share * context.ceilings.compute_s)
    worth = context.worth(gain)
    if share >= ELEMENTWISE_SHARE and worth is not None:
        yield Finding(
            check="operation_kinds",
            gives=worth,
            seen=f"element-wise operations take {share:.0%} of the compute",
            where=_places(found),
            remedy=("model.compile()  # joins neighbouring element-wise operations into one pass over memory",),
            gain=gain,
            sure=Sureness.POSSIBLE,
            why="each reads and writes whole tensors; half of their time is taken for the bound",
        )


def _large(context: Context, kind: str) -> dict[Line, float]:
    """Return by line the share of the kernels' time in large operations of a kind, loops of small ones left out."""
    trace, found = context.trace, dict[Line, float]()
    loops = trace.repeated()
    total = trace.seconds(backward=False) + trace.seconds(backward=True)
    for (name, line, _), noted in trace.operations.items():
        if line is not None and line not in loops and not noted.small and kind_of(name) == kind:
            found[line] = found.get(line, 0.0) + noted.seconds / total
    return found


def _places(found: dict[Line, float]) -> tuple[str, ...]:
    return tuple(str(line) for line in sorted(found, key=lambda line: -found[line]) if found[line] >= SHOWN_SHARE)
