"""What a check is given: the workload built and warm, its ceilings, recordings of its steps, and the time left."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Set
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch

from autotune.batches import clone
from autotune.doctor.calls import Calls, record_calls
from autotune.doctor.compare import Change, Comparison, compare
from autotune.doctor.findings import Basis, Ceilings, Finding, Gain, Gives
from autotune.doctor.lines import Birthplaces, Line, LineShares, sample_lines
from autotune.doctor.reading import Reading, reader_of
from autotune.doctor.timing import stretch, typical
from autotune.doctor.trace import Trace, trace_steps
from autotune.machine import Machine
from autotune.measure.session import Session
from autotune.measure.training import Training

MIN_SHARE = 0.05
"""a gain of time below this share of a step is not worth a word, where it rests on a measurement"""
CERTAIN_SHARE = 0.01
"""the same where the fault is certain and fixing it changes nothing else"""
MIN_MEMORY_SHARE = 0.05
"""of the peak: memory below this share is not worth a word"""
NARROW = 0.05
"""an interval of this width, or of the gain itself, makes a measurement"""
SAMPLED_S = 1.5
STRETCHED_S = 0.5
TRACED_STEPS = 2


@dataclass(kw_only=True)
class Context:
    """Everything that a check may look at and use. What it changes it sets back."""

    session: Session
    machine: Machine
    ceilings: Ceilings
    cached: list[Any]
    """a few batches in host memory"""
    birthplaces: Birthplaces = field(default_factory=Birthplaces)
    unwrapped: tuple[str, ...] = ()
    """names of wrappers that were taken off the model to look at it: "DataParallel" """
    peak_bytes: int = 0
    """of the steady state, on the device"""
    deadline: float = float("inf")
    """by the session's clock; experiments end before it"""

    @property
    def training(self) -> Training:
        return self.session.training

    @property
    def left_s(self) -> float:
        """Seconds that experiments may still take."""
        return self.deadline - self.session.clock()

    @property
    def compiled(self) -> bool:
        """Whether torch.compile has the model, or a part of it."""
        modules = self.training.model.modules()
        return any(hasattr(item, "_orig_mod") or item._compiled_call_impl is not None for item in modules)

    def eager(self) -> AbstractContextManager[object]:
        """Let compiled code run uncompiled: what is compiled shows no operation, module or line."""
        return torch.compiler.set_stance("force_eager") if self.compiled else nullcontext()

    @property
    def on_accelerator(self) -> bool:
        return self.session.device.is_accelerator

    def run_steps(self, count: int) -> float:
        """Train on so many cached batches; return the seconds that took, the device finished."""
        device, training = self.session.device, self.training
        batches = [clone(self.cached[index % len(self.cached)]) for index in range(count)]
        with self.eager():
            device.synchronize()
            began = self.session.clock()
            for batch in batches:
                training.step(training.loader.place(batch))
            device.synchronize()
            return self.session.clock() - began

    def seconds_of(self, work: Callable[[], object]) -> float:
        """Return the seconds that a small piece of work takes as a part of the step."""
        if self.on_accelerator:
            return typical(work, self.session.device.synchronize)
        return typical(work, clock=time.process_time) * self._stretch

    @cached_property
    def _stretch(self) -> float:
        count = max(3, int(STRETCHED_S / max(self.ceilings.compute_s, 1e-4)))
        return stretch(lambda: self.run_steps(count))

    def compare(self, change: Change) -> Comparison | None:
        """Measure a fix against the step as it is; None where no time is left for it."""
        seconds = min(6.0, self.left_s)
        if seconds < 4 * self.ceilings.compute_s:
            return None
        return compare(
            self.run_steps, change, seconds=seconds, clock=self.session.clock, multiple=self.session.accumulation
        )

    def gain(self, bound_s: float, change: Change | None = None, *, saved_bytes: int = 0) -> Gain:
        """Return the gain of a fix of the compute: measured where that is precise enough, else the bound.

        Without a bound (0) a wide interval will do, if it leaves no doubt that there is a gain.

        Args:
            bound_s: seconds of a step's compute that it can save at most.
            change: the fix itself, where it can be tried.
            saved_bytes: memory that it saves.
        """
        found = self.compare(change) if change is not None else None
        narrow = found is not None and found.half_width <= max(NARROW, abs(found.saved)) / 2
        if found is None or not (narrow or (found.clear and not bound_s)):
            share = self.share_of_step(bound_s)
            return Gain(share=share, basis=Basis.BOUND if share else Basis.NONE, saved_bytes=saved_bytes)
        return Gain(
            share=self.share_of_step(max(0.0, found.saved) * self.ceilings.compute_s),
            basis=Basis.MEASURED,
            half_width=found.half_width,
            saved_bytes=saved_bytes,
        )

    def share_of_step(self, saved_s: float) -> float:
        """Return the share of a step that saving so much compute gives: less where the loader is the slower side."""
        ceilings = self.ceilings
        after = max(0.0, ceilings.step_s - min(saved_s, ceilings.compute_s))
        if self.session.workers:  # they load meanwhile: a step takes as long as the slower of the two
            after = max(after, min(ceilings.step_s, ceilings.loader_s))
        return (ceilings.step_s - after) / ceilings.step_s

    def share_of_loading(self, saved_s: float) -> float:
        """Return the share of a step that saving so many seconds of one process's loading of a batch gives."""
        ceilings = self.ceilings
        waited = ceilings.wait_s + (ceilings.contention_s if self.session.workers else 0.0)
        return min(saved_s / max(1, self.session.workers), waited) / ceilings.step_s

    def worth(self, gain: Gain, *, certain: bool = False) -> Gives | None:
        """Return what a gain is worth a word for: speed, else memory, else nothing."""
        low = gain.share - (gain.half_width or 0.0) if gain.basis is Basis.MEASURED and not certain else gain.share
        if gain.share >= (CERTAIN_SHARE if certain else MIN_SHARE) and low > 0:
            return Gives.SPEED
        if self.peak_bytes and gain.saved_bytes >= MIN_MEMORY_SHARE * self.peak_bytes:
            return Gives.MEMORY
        return None

    def place(self, name: str) -> str:
        """Return a module of the model as the user finds it."""
        return self.birthplaces.place(name, self.training.model.get_submodule(name))

    def parameter_places(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the modules that own these parameters, as the user finds them."""
        modules = dict.fromkeys(name.rpartition(".")[0] for name in names)
        return tuple(self.place(name) for name in modules)

    @cached_property
    def trace(self) -> Trace:
        """A few steps, each operation noted with its line."""
        return trace_steps(self, TRACED_STEPS)

    @cached_property
    def calls(self) -> Calls:
        """A few steps, each call of a module noted."""
        return record_calls(self)

    @cached_property
    def reading(self) -> Reading | None:
        """How samples are read; None where only the user's own loader can."""
        reader = reader_of(self)
        return None if reader is None else Reading(self, reader)

    @cached_property
    def line_shares(self) -> LineShares:
        """Where a step's time goes by line of the user's."""
        count = max(3, min(1000, int(SAMPLED_S / max(self.ceilings.compute_s, 1e-4))))
        return sample_lines(lambda: self.run_steps(count))

    def share_of_lines(self, lines: Set[Line], *, forward_only: bool = False) -> float:
        """Return the share of the compute that lines of the user's take, their part of the backward pass with it."""
        everywhere = self.trace.seconds(backward=True)
        behind = 0.0 if forward_only or not everywhere else self.trace.seconds(lines, backward=True) / everywhere
        return self.line_shares.share(lines, behind)


def findings_of(check: Any, context: Context) -> list[Finding]:
    """Return what one check found."""
    return list(check.check(context))
