"""Parameters that get gradients and are in no optimizer, and those held by one for nothing. Technique 25."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from torch import nn

from autotune.doctor.context import Context
from autotune.doctor.findings import Finding, Gain, Gives, Sureness
from autotune.words.figures import memory


def check(context: Context) -> Iterator[Finding]:
    optimizers = context.training.optimizers
    held = {id(item): item for made in optimizers for group in made.param_groups for item in group["params"]}
    named = dict(context.training.model.named_parameters())
    yield from _not_updated(context, {name: item for name, item in named.items() if id(item) not in held})
    own = {id(item) for item in named.values()}
    yield from _not_in_model([item for key, item in held.items() if key not in own])


def _not_updated(context: Context, outside: dict[str, nn.Parameter]) -> Iterator[Finding]:
    wasted = {name: item for name, item in outside.items() if item.requires_grad and name in context.calls.reached}
    if not wasted:
        return
    size = sum(item.numel() * item.element_size() for item in wasted.values())

    @contextmanager
    def frozen() -> Iterator[None]:
        for item in wasted.values():
            item.requires_grad_(False)
        try:
            yield
        finally:
            for item in wasted.values():
                item.requires_grad_(True)

    # without a gradient for any of them the backward pass ends before it comes to them: at most all of it
    gain = context.gain(0.0, frozen, saved_bytes=size)
    yield Finding(
        check="optimizer_mismatch",
        gives=Gives.SPEED if context.worth(gain) is Gives.SPEED else Gives.RESULT,
        seen=f"{len(wasted)} parameters ({memory(size)}) get gradients in each step and are in no optimizer",
        where=context.parameter_places(wasted),
        remedy=(
            "Give them to the optimizer where they should train; else, where they should not:",
            "module.requires_grad_(False)",
        ),
        gain=gain,
        why="they never change; their gradients are computed, kept and added up for nothing",
    )


def _not_in_model(strangers: Iterable[nn.Parameter]) -> Iterator[Finding]:
    found = list(strangers)
    if not found:
        return
    size = sum(item.numel() * item.element_size() for item in found)
    without = [item for item in found if item.grad is None]
    if not without:
        return  # a loss or a second model has them, and they do train
    yield Finding(
        check="optimizer_mismatch",
        gives=Gives.RESULT,
        seen=f"the optimizer holds {len(without)} parameters ({memory(size)}) that are not in the model",
        where=tuple(f"a parameter of shape {list(item.shape)}" for item in without[:3]),
        remedy=("Make the optimizer after the last change to the model: optimizer = ...(model.parameters())",),
        gain=Gain(saved_bytes=size),
        sure=Sureness.LIKELY,
        why="those that took their place in the model are then not trained",
    )
