"""Debugging aids left on: anomaly detection, deterministic algorithms, blocking launches, a tracer, a profiler."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch.autograd import anomaly_mode

from autotune.doctor.compare import Change
from autotune.doctor.context import Context
from autotune.doctor.findings import Basis, Finding, Gain, Gives
from autotune.doctor.lines import calls_to, find_nodes

VARIABLES = {
    "CUDA_LAUNCH_BLOCKING": "every launch waits for the one before",
    "PYTORCH_NO_CUDA_MEMORY_CACHING": "every allocation goes to the driver",
}


def check(context: Context) -> Iterator[Finding]:
    if torch.is_anomaly_enabled() or context.trace.anomaly:
        yield from _mode(
            context,
            "anomaly detection is on: every operation keeps its traceback, every gradient is looked through for NaN",
            ("set_detect_anomaly", "detect_anomaly"),
            "torch.autograd.set_detect_anomaly(False)  # on only while a NaN is looked for",
            _without_anomaly,
        )
    if torch.are_deterministic_algorithms_enabled():
        yield from _mode(
            context,
            "deterministic algorithms are asked for: slower kernels, and new memory filled with NaN",
            ("use_deterministic_algorithms",),
            "torch.use_deterministic_algorithms(False)  # on only where runs must agree bit for bit",
            _without_determinism,
        )
    if torch._C._autograd._profiler_enabled():
        yield from _mode(context, "a profiler is on", ("profile",), "Run it over a few steps only.", None)
    if sys.gettrace() is not None or sys.getprofile() is not None:
        yield from _mode(
            context,
            "a Python tracer or debugger is on",
            ("settrace", "setprofile"),
            "sys.settrace(None)",
            _without_tracer,
        )
    if context.on_accelerator:
        for name, what in VARIABLES.items():
            if os.environ.get(name, "0") not in ("", "0"):
                busy = context.ceilings.device_busy_s or context.ceilings.compute_s
                gain = Gain(share=context.share_of_step(context.ceilings.compute_s - busy), basis=Basis.BOUND)
                yield Finding(
                    check="debug_modes",
                    gives=Gives.SPEED,
                    seen=f"{name} is set: {what}",
                    where=(f"environment variable {name}",),
                    remedy=(f"unset {name}",),
                    gain=gain,
                )


def _mode(context: Context, seen: str, names: tuple[str, ...], remedy: str, off: Change | None) -> Iterator[Finding]:
    gain = context.gain(0.0, off)
    worth = context.worth(gain)
    if worth is None and off is not None and gain.basis is Basis.MEASURED:
        return  # on, and costs nothing here
    lines = tuple(str(line) for line in find_nodes(calls_to(*names)))
    yield Finding(
        check="debug_modes",
        gives=worth or Gives.SPEED,
        seen=seen,
        where=lines or ("set outside the script",),
        remedy=(remedy,),
        gain=gain,
    )


@contextmanager
def _without_anomaly() -> Iterator[None]:
    """Switch it off, and keep the step from switching it on."""
    was, checks = torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()
    entering: Callable[..., None] = anomaly_mode.detect_anomaly.__enter__
    setting: Callable[..., None] = torch.set_anomaly_enabled
    torch.set_anomaly_enabled(False)
    anomaly_mode.detect_anomaly.__enter__ = lambda self: None  # type: ignore[method-assign]
    torch.set_anomaly_enabled = lambda *args, **kwargs: None
    try:
        yield
    finally:
        torch.set_anomaly_enabled = setting
        anomaly_mode.detect_anomaly.__enter__ = entering  # type: ignore[method-assign]
        torch.set_anomaly_enabled(was, checks)


@contextmanager
def _without_determinism() -> Iterator[None]:
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(False)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(True, warn_only=warn_only)


@contextmanager
def _without_tracer() -> Iterator[None]:
    tracer, profiler = sys.gettrace(), sys.getprofile()
    sys.settrace(None)
    sys.setprofile(None)
    try:
        yield
    finally:
        sys.settrace(tracer)
        sys.setprofile(profiler)
