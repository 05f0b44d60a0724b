"""Which modules a step calls, what goes in and out of them, and which of their outputs and parameters get gradients."""

from __future__ import annotations

import sys
import warnings
import weakref
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from autotune.batches import clone, tensors
from autotune.doctor.lines import Line, line_of

if TYPE_CHECKING:
    from autotune.doctor.context import Context

RECORDED_STEPS = 6  # some parts are used in some steps only
MIN_RECORDED_STEPS = 3
MAX_RECORDED_S = 5.0


@dataclass
class Call:
    """One call of a module."""

    name: str
    module: nn.Module
    line: Line | None
    """of the user's, that called it"""
    training: bool
    step: int
    depth: int
    """modules that were being called around it"""
    follows: str | None = None
    """the module whose output, as it is, goes into this one"""
    input_grad: bool = False
    """an input records a graph or asks for a gradient"""
    input_leaf: bool = False
    """an input asks for a gradient by itself, without a graph behind it"""
    output_grad: bool = False
    """an output records a graph"""
    arrived: bool = False
    """the backward pass brought a gradient to an output"""
    elements: int = 0
    """of all outputs"""
    bytes: int = 0
    shape: tuple[int, ...] = ()
    """of the first output"""
    dtype: torch.dtype | None = None
    """of the first output"""


@dataclass
class Calls:
    """What was noted in a few steps."""

    steps: int = 0
    calls: list[Call] = field(default_factory=list)
    reached: set[str] = field(default_factory=set)
    """parameters that got a gradient in any step"""
    updates: int = 0
    """optimizer steps"""

    def per_step(self) -> list[Call]:
        """Return the calls of the last step."""
        return [call for call in self.calls if call.step == self.steps - 1]

    def counted(self) -> Counter[str]:
        """Return how often each module was called in the last step."""
        return Counter(call.name for call in self.per_step())


class _Recorder:
    def __init__(self, model: nn.Module) -> None:
        self.found = Calls()
        self.step = 0
        self._open: list[Call] = []
        self._origin: dict[int, tuple[weakref.ref[Tensor], int, str]] = {}
        self._handles: list[Any] = []
        for name, module in model.named_modules():
            if not isinstance(module, torch.jit.ScriptModule):
                self._handles.append(module.register_forward_pre_hook(self._enters(name), with_kwargs=True))
                self._handles.append(module.register_forward_hook(self._leaves, always_call=True))
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                self._handles.append(parameter.register_hook(self._reaches(name)))

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()

    def _reaches(self, name: str) -> Any:
        def note(gradient: Tensor) -> None:
            self.found.reached.add(name)

        return note

    def _enters(self, name: str) -> Any:
        def note(module: nn.Module, args: Any, kwargs: Any) -> None:
            line = line_of(sys._getframe(1))
            call = Call(name, module, line, module.training, self.step, len(self._open))
            given = [*tensors(args), *tensors(kwargs)]
            for item in given:
                call.input_grad |= item.requires_grad
                call.input_leaf |= item.requires_grad and item.is_leaf and not isinstance(item, nn.Parameter)
            if len(given) == 1:
                call.follows = self._made_by(given[0])
            self._open.append(call)

        return note

    def _made_by(self, tensor: Tensor) -> str | None:
        known = self._origin.get(id(tensor))
        unchanged = known is not None and known[0]() is tensor and known[1] == tensor._version
        return known[2] if known is not None and unchanged else None

    def _leaves(self, module: nn.Module, args: Any, output: Any) -> None:
        if not self._open or self._open[-1].module is not module:
            return  # a call that failed on its way
        call = self._open.pop()
        for index, item in enumerate(tensors(output)):
            if index == 0:
                call.shape, call.dtype = tuple(item.shape), item.dtype
            call.elements += item.numel()
            call.bytes += item.numel() * item.element_size()
            # of modules in modules the inner one made the tensor; one without others may have changed it in place
            inner = next(module.children(), None) is None and not isinstance(module, nn.Identity)
            if inner or self._made_by(item) is None:
                self._origin[id(item)] = (weakref.ref(item), item._version, call.name)
            if item.requires_grad and item.grad_fn is not None:
                call.output_grad = True
                item.register_hook(_arrives(call))
        self.found.calls.append(call)


def _arrives(call: Call) -> Any:
    def note(gradient: Tensor) -> None:
        call.arrived = True

    return note


def record_calls(context: Context) -> Calls:
    """Train on a few cached batches with every call of a module noted."""
    training = context.training
    recorder = _Recorder(training.model)
    handles = [item.register_step_post_hook(lambda *_: _count(recorder.found)) for item in training.optimizers]
    try:
        with warnings.catch_warnings(), context.eager():
            warnings.simplefilter("ignore")
            began = context.session.clock()
            for step in range(RECORDED_STEPS):
                recorder.step = step
                batch = clone(context.cached[step % len(context.cached)])
                training.step(training.loader.place(batch))
                recorder.found.steps += 1
                if step + 1 >= MIN_RECORDED_STEPS and context.session.clock() - began > MAX_RECORDED_S:
                    break
    finally:
        recorder.remove()
        for handle in handles:
            handle.remove()
    return recorder.found


def _count(found: Calls) -> None:
    found.updates += 1
