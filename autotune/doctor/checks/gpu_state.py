"""The card's state: another process on it, throttling."""

from __future__ import annotations

import os
from collections.abc import Iterator

from autotune.doctor.context import Context
from autotune.doctor.findings import Finding, Gives, Sureness
from autotune.trials.gpu import GpuWatch

SEEN = {
    "gpu_shared": (
        "another process computes on the same card",
        ("CUDA_VISIBLE_DEVICES=1 python train.py  # another card; nvidia-smi shows who runs where",),
    ),
    "gpu_throttled": (
        "the card lowers its clocks: it is too hot, or gets too little power",
        ("nvidia-smi -q -d PERFORMANCE,TEMPERATURE  # says which; then cooling, or the power limit",),
    ),
}


def check(context: Context) -> Iterator[Finding]:
    if not context.on_accelerator:
        return
    watch = GpuWatch(os.getpid())
    try:
        for _ in range(3):
            context.run_steps(max(1, int(0.3 / context.ceilings.compute_s)))
            watch.look(())
        flags = watch.seen().get("flags", ())
    finally:
        watch.close()
    yield from findings(context, flags)


def findings(context: Context, flags: tuple[str, ...]) -> Iterator[Finding]:
    """Return a finding for each flag of the card that slows a training."""
    for flag in flags:
        if flag in SEEN:
            seen, remedy = SEEN[flag]
            yield Finding(
                check="gpu_state",
                gives=Gives.SPEED,
                seen=seen,
                where=(context.session.device.name,),
                remedy=remedy,
                sure=Sureness.CERTAIN,
                why="every figure here is slower than the card by itself",
            )
