"""Modules whose graph nobody needs: recorded in the forward pass, though no gradient comes of it. Technique 25."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from torch import nn

from autotune.doctor.calls import Call
from autotune.doctor.context import Context
from autotune.doctor.findings import Finding
from autotune.doctor.lines import Line


def check(context: Context) -> Iterator[Finding]:
    model = context.training.model
    calls = [call for call in context.calls.per_step() if call.output_grad and call.name]
    wasted = _outermost([call for call in calls if not call.arrived and not _helps(call, calls)])
    needless = _outermost([call for call in calls if call.arrived and call.input_leaf and _frozen(call.module)])
    for chosen, why in (
        (wasted, "no gradient comes back to their outputs: they are detached, or the loss does not use them"),
        (needless, "all their parameters are frozen, and only an input that asks for a gradient makes them record"),
    ):
        names = list(dict.fromkeys(call.name for call in chosen))
        if not names:
            continue
        counted = context.calls.counted()
        whole = all(counted[name] == sum(call.name == name for call in chosen) for name in names)
        modules = [model.get_submodule(name) for name in names]
        fix = partial(_without_graph, modules) if whole else None
        gain = context.gain(_bound_s(context, chosen), fix, saved_bytes=_kept_bytes(context, modules))
        worth = context.worth(gain, certain=True)
        if worth is None:
            continue
        lines = dict.fromkeys(call.line for call in chosen if call.line is not None)
        yield Finding(
            check="frozen_graph",
            gives=worth,
            seen=f"{_few(names)} a graph for the backward pass in each step that nothing needs",
            where=(*(str(line) for line in lines), *(context.place(name) for name in names)),
            remedy=("with torch.no_grad():  # around the call; for one that never trains also .requires_grad_(False)",),
            gain=gain,
            why=why,
        )


def _few(names: list[str]) -> str:
    return f"{names[0]} records" if len(names) == 1 else f"{len(names)} modules record"


def _frozen(module: nn.Module) -> bool:
    parameters = list(module.parameters())
    return bool(parameters) and not any(item.requires_grad for item in parameters)


def _helps(call: Call, calls: list[Call]) -> bool:
    """Whether gradients come to something inside the module, so that its graph is of use."""
    inside = f"{call.name}."
    return any(other.arrived for other in calls if other.name.startswith(inside))


def _outermost(calls: list[Call]) -> list[Call]:
    names = {call.name for call in calls if any(True for _ in call.module.parameters())}
    return [
        call
        for call in calls
        if call.name in names and not any(call.name.startswith(f"{other}.") for other in names if other != call.name)
    ]


def _bound_s(context: Context, calls: list[Call]) -> float:
    """Return the seconds of the backward pass through these calls; recording alone costs next to none, and memory."""
    lines: set[Line] = {call.line for call in calls if call.line is not None and call.arrived}
    share = context.share_of_lines(lines) - context.share_of_lines(lines, forward_only=True)
    return share * context.ceilings.compute_s


def _kept_bytes(context: Context, modules: list[nn.Module]) -> int:
    """Return the bytes that the modules' graphs keep for a backward pass, in a step."""
    own = {item.untyped_storage().data_ptr() for item in context.training.model.parameters()}
    kept: dict[int, int] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with _inside(modules, lambda: torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor)):
        context.run_steps(1)
    return sum(kept.values())


def _without_graph(modules: list[nn.Module]) -> AbstractContextManager[None]:
    """Run these modules' forward passes without recording."""
    return _inside(modules, torch.no_grad)


@contextmanager
def _inside(modules: list[nn.Module], context: Callable[[], AbstractContextManager[Any]]) -> Iterator[None]:
    """Run these modules' forward passes in a context."""
    with ExitStack() as undo:
        for module in modules:
            before = module.__dict__.get("forward")
            plain = module.forward

            def forward(*args: Any, _plain: Any = plain, **kwargs: Any) -> Any:
                with context():
                    return _plain(*args, **kwargs)

            module.forward = forward
            if before is None:
                undo.callback(module.__dict__.pop, "forward", None)
            else:
                undo.callback(module.__dict__.__setitem__, "forward", before)
        yield
