"""Every tensor of a step by what it is for: noted where it is made, taken off where its memory is freed."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, UntypedStorage, nn
from torch.optim import Optimizer
from torch.utils._python_dispatch import TorchDispatchMode

from autotune.batches import tensors
from autotune.doctor.memory.account import (
    ACTIVATIONS,
    GRADIENTS,
    INPUTS,
    OPTIMIZER,
    PARAMETERS,
    WORKSPACE,
    Moment,
)

FORWARD, BACKWARD, UPDATE = "forward", "backward", "optimizer"


@dataclass
class _Kept:
    bytes: int
    kind: str
    module: str
    ref: weakref.ref[UntypedStorage]


class Tracker(TorchDispatchMode):
    """Follows the memory of tensors through one step, on any device."""

    def __init__(self, model: nn.Module, optimizers: Iterable[Optimizer], batch: Any) -> None:
        super().__init__()
        self._model, self._optimizers = model, list(optimizers)
        self._live: dict[int, _Kept] = {}
        self._totals: Counter[str] = Counter()
        self._modules: list[str] = []
        self.phase = FORWARD
        self.moments: list[Moment] = []
        """after each operation"""
        self.peak = Moment(phase=FORWARD, parts={})
        self.peak_modules: Counter[str] = Counter()
        """activations at the peak, by module"""
        for item in (*model.parameters(), *model.buffers()):
            self._note(item, PARAMETERS)
            if item.grad is not None:
                self._note(item.grad, GRADIENTS)
        for optimizer in self._optimizers:
            for state in optimizer.state.values():
                for item in tensors(dict(state)):
                    self._note(item, OPTIMIZER)
        for item in tensors(batch):
            self._note(item, INPUTS)

    @contextmanager
    def following(self) -> Iterator[None]:
        """Follow the step that is made inside."""
        handles: list[Any] = []
        for name, module in self._model.named_modules():
            if not isinstance(module, torch.jit.ScriptModule):
                handles.append(module.register_forward_pre_hook(self._enters(name)))
                handles.append(module.register_forward_hook(self._leaves, always_call=True))
        for parameter in self._model.parameters():
            if parameter.requires_grad:
                handles.append(parameter.register_post_accumulate_grad_hook(self._accumulated))
        for optimizer in self._optimizers:
            handles.append(optimizer.register_step_pre_hook(self._updates))
            handles.append(optimizer.register_step_post_hook(self._updated))
        try:
            with torch.autograd.graph.saved_tensors_hooks(self._saves, lambda kept: kept), self:
                yield
        finally:
            for handle in handles:
                handle.remove()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if self.phase != UPDATE:
            in_backward = torch._C._current_autograd_node() is not None
            self.phase = BACKWARD if in_backward else FORWARD
        for item in tensors(result):
            self._note(item, WORKSPACE)
        self._mark()
        return result

    def _note(self, tensor: Tensor, kind: str) -> None:
        storage = _storage(tensor)
        if storage is None or storage._cdata in self._live:
            return
        key, size = storage._cdata, storage.nbytes()
        ref = weakref.ref(storage, lambda _: self._freed(key))
        module = self._modules[-1] if self._modules else ""
        self._live[key] = _Kept(size, kind, module, ref)
        self._totals[kind] += size

    def _freed(self, key: int) -> None:
        kept = self._live.pop(key, None)
        if kept is not None:
            self._totals[kept.kind] -= kept.bytes

    def _becomes(self, tensor: Tensor, kind: str, of: tuple[str, ...]) -> None:
        storage = _storage(tensor)
        kept = None if storage is None else self._live.get(storage._cdata)
        if kept is not None and kept.kind in of:
            self._totals[kept.kind] -= kept.bytes
            kept.kind = kind
            self._totals[kind] += kept.bytes

    def _mark(self) -> None:
        moment = Moment(phase=self.phase, parts=dict(self._totals))
        self.moments.append(moment)
        if moment.bytes > self.peak.bytes:
            self.peak = moment
            self.peak_modules = Counter()
            for kept in self._live.values():
                if kept.kind == ACTIVATIONS:
                    self.peak_modules[kept.module] += kept.bytes

    def _saves(self, tensor: Tensor) -> Tensor:
        self._becomes(tensor, ACTIVATIONS, (WORKSPACE,))
        return tensor.detach()  # the tensor itself would hold its own graph, and never be freed

    def _accumulated(self, parameter: Tensor) -> None:
        if parameter.grad is not None:
            self._becomes(parameter.grad, GRADIENTS, (WORKSPACE, ACTIVATIONS))

    def _enters(self, name: str) -> Any:
        def note(*_: Any) -> None:
            self._modules.append(name)

        return note

    def _leaves(self, *_: Any) -> None:
        if self._modules:
            self._modules.pop()

    def _updates(self, *_: Any) -> None:
        self.phase = UPDATE

    def _updated(self, optimizer: Optimizer, *_: Any) -> None:
        self.phase = FORWARD
        for state in optimizer.state.values():
            for item in tensors(dict(state)):
                self._becomes(item, OPTIMIZER, (WORKSPACE,))
        self._mark()


def _storage(tensor: Tensor) -> UntypedStorage | None:
    try:
        return tensor.untyped_storage()
    except (NotImplementedError, RuntimeError):  # sparse, or a subclass without memory of its own
        return None
