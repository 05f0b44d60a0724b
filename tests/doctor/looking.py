"""What tests of the doctor share: a context over a workload in this process, and the lines of planted faults."""

from __future__ import annotations

import importlib
import inspect
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset

from autotune.config import Config
from autotune.doctor.compare import Comparison
from autotune.doctor.context import Context
from autotune.doctor.examine import run_checks
from autotune.doctor.findings import Ceilings, Finding
from autotune.doctor.lines import Birthplaces, Line
from autotune.machine import Machine
from autotune.measure.session import Session
from autotune.measure.training import Training
from autotune.records import Limits
from autotune.workload import Workload
from tests.measure.measuring import QuickDevice

HUGE = 1 << 40


def images(length: int = 48, side: int = 8) -> TensorDataset:
    return TensorDataset(torch.randn(length, 3, side, side), torch.randint(0, 3, (length,)))


def vectors(length: int = 48) -> TensorDataset:
    return TensorDataset(torch.randn(length, 16), torch.randint(0, 3, (length,)))


def work(model: Callable[[], nn.Module], data: Callable[[], Any] = vectors, **changes: Any) -> Workload:
    """Return a workload with SGD and cross entropy; `changes` are its other fields."""
    parts: dict[str, Any] = {"optimizer": lambda params: torch.optim.SGD(params, lr=0.01)}
    if "training_step" not in changes:
        parts["loss"] = cross_entropy
    return Workload(model=model, dataset=data, **{**parts, **changes})


class Told(Context):
    """A context whose experiments come to what a test says: nothing here depends on how busy the machine is."""

    saved: float | None = None
    """share that a fix saves; None: no time is left to try it"""
    half_width: float = 0.01
    tried: int = 0

    def compare(self, change: Any) -> Comparison | None:
        with change():  # it must work, and undo itself
            self.run_steps(1)
        self.run_steps(1)
        self.tried += 1
        return None if self.saved is None else Comparison(saved=self.saved, half_width=self.half_width, pairs=8)


def context_of(workload: Workload, *, saved: float | None = None, ceilings: Any = None, **config: Any) -> Told:
    """Return a context over warm steps of a workload.

    Args:
        workload: what to look at.
        saved: what every experiment comes to.
        ceilings: changes to the ceilings, by field.
        config: options.
    """
    birthplaces = Birthplaces()
    with birthplaces.watching():
        training = Training(workload, Config(**{"batch_size": 8, **config}), device="cpu")
    session = Session(
        training=training,
        device=QuickDevice(torch.device("cpu")),
        limits=Limits(host_bytes=HUGE),
        dataset_length=len(training.dataset),
    )
    cached = [session.stream.next().host for _ in range(4)]
    session.stream.close()
    context = Told(
        session=session,
        machine=Machine.read(),
        ceilings=Ceilings(step_s=1.0, uncertainty=0.01, samples_per_step=8, wait_s=0.0, compute_s=1.0, loader_s=0.0),
        cached=cached,
        birthplaces=birthplaces,
    )
    context.saved = saved
    context.run_steps(2)
    step_s = context.run_steps(4) / 4
    figures: dict[str, Any] = {
        "step_s": step_s,
        "compute_s": step_s,
        "uncertainty": 0.01,
        "samples_per_step": float(training.batch_size),
        "workers": session.workers,
        "wait_s": 0.0,
        "loader_s": 0.0,
    }
    context.ceilings = Ceilings(**{**figures, **(ceilings or {})})
    return context


def found_by(name: str, context: Context) -> list[Finding]:
    """Return what the check called `name` finds."""
    check = importlib.import_module(f"autotune.doctor.checks.{name}")
    findings, failed = run_checks(context, {name: check})
    assert not failed, failed
    return findings


def fault(mark: str = "fault") -> str:
    """Return the place of the line in the caller's file that ends in a comment of that text."""
    caller = inspect.currentframe()
    assert caller is not None
    assert caller.f_back is not None
    file = caller.f_back.f_code.co_filename
    numbers = [
        number for number, text in enumerate(Path(file).read_text().splitlines(), 1) if text.endswith(f"# {mark}")
    ]
    assert len(numbers) == 1, (mark, numbers)
    return str(Line(file, numbers[0]))


class Clean(nn.Module):
    """A classifier of vectors without a fault."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 3))

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


class CleanImages(nn.Module):
    """A classifier of images without a fault."""

    def __init__(self) -> None:
        super().__init__()
        self.convolve = nn.Conv2d(3, 16, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(16)
        self.classify = nn.Linear(16, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.classify(self.norm(self.convolve(x)).relu().mean((2, 3)))


def sleep_in_forward(seconds: float) -> type[nn.Module]:
    """Return a model class whose forward pass takes so long."""

    class Slow(Clean):
        def forward(self, x: Tensor) -> Tensor:
            time.sleep(seconds)
            return super().forward(x)

    return Slow
