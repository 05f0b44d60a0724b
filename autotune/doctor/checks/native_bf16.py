"""bf16 on a device that has no such arithmetic, and emulates it. Technique 4."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from autotune.doctor.context import Context
from autotune.doctor.findings import Finding
from autotune.doctor.lines import calls_to, find_nodes


def check(context: Context) -> Iterator[Finding]:
    if "bfloat16" not in context.trace.autocast or context.session.device.native_bf16():
        return
    gain = context.gain(0.0, _without_autocast)
    worth = context.worth(gain)
    if worth is None:
        return
    lines = tuple(str(line) for line in find_nodes(calls_to("autocast")))
    yield Finding(
        check="native_bf16",
        gives=worth,
        seen=f"the step computes in bf16, and {context.session.device.name} has no bf16 arithmetic: it is emulated",
        where=lines or ("precision = bf16",),
        remedy=("Train in fp32 here: leave out autocast, or set precision=fp32.",),
        gain=gain,
    )


@contextmanager
def _without_autocast() -> Iterator[None]:
    enter = torch.autocast.__enter__

    def disabled(self: Any) -> Any:
        self._enabled = False
        return enter(self)

    torch.autocast.__enter__ = disabled  # type: ignore[method-assign]
    try:
        yield
    finally:
        torch.autocast.__enter__ = enter  # type: ignore[method-assign]
