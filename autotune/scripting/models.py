"""The script's models: the outermost forwards of what it trains, computed as the plan says.

A module's own hooks would be saved with it by `torch.save(model)`, and the hooks of all modules cost every module's
call; so `nn.Module.__call__` is patched until the models are known, and then the classes of these alone.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from autotune.batches import map_tensors
from autotune.errors import WorkloadError
from autotune.plan import Plan
from autotune.scripting.changes import Changes
from autotune.scripting.lent import lent
from autotune.scripting.losses import in_backward_pass
from autotune.scripting.optimizers import updated_by

SETTLE_AFTER = 4  # updates, after which every model that is trained has been called
MOST_LOOKS = 32  # a script that makes an optimizer for each step would have every module's call looked at all the time


class Autocast(torch.autocast):
    """Autocast that is ours: told apart from the script's own."""


class ModelHooks:
    """Finds the models that the script trains, and computes them as the plan says."""

    def __init__(self, plan: Plan, on_forward: Callable[..., None] | None = None) -> None:
        """`on_forward` (model, args, kwargs) is called before each outermost forward."""
        self.models: list[nn.Module] = []
        """outermost modules with trainable parameters, in the order of their first forward; later ones are not kept"""
        self.compute: Callable[..., Any] = self._forward
        """computes each outermost forward; whoever looks at them puts a function around it"""
        self._plan, self._on_forward = plan, on_forward
        self._known: weakref.WeakSet[nn.Module] = weakref.WeakSet()
        self._were_cast: weakref.WeakSet[nn.Module] = weakref.WeakSet()
        """those whose last forward was under our autocast"""
        self._inside = False
        self._finding: Changes | None = None
        self._everywhere: tuple[Any, Any] | None = None
        """the call of all modules as it is and as it is patched, while it is"""
        self._kinds: dict[type[nn.Module], None] = {}
        """classes of the models that were found since it was settled"""
        self._settled = False
        self._looks = self._updates = 0
        """how often it looked again, and updates since it began to"""
        self._found = False
        """whether it found a model since"""
        self._applied: set[int] = set()
        self._refused: dict[int, WorkloadError] = {}

    def find(self) -> None:
        """Look at every module's call, until some updates were made."""
        self.models.clear()
        self._looks = 0
        self._look()

    def look_again(self) -> bool:
        """Look once more: a new optimizer was seen, which may train a model that is not known.

        Returns:
            False where this was done too often already, and the last time there was one.
        """
        if not self._settled or self.finding or not self.needed:
            return True
        if self._looks == MOST_LOOKS:
            return not self._found
        self._looks += 1
        self._look()
        return True

    def _look(self) -> None:
        self._updates, self._found = 0, False
        self._finding = Changes()
        plain: Any = nn.Module.__call__
        self._patch(nn.Module, self._finding)
        self._everywhere = plain, nn.Module.__call__

    @property
    def needed(self) -> bool:
        """Whether the plan does anything to a model."""
        return bool(self._plan.model_transforms or self._plan.tensor_transforms or self._plan.autocast_dtype)

    @property
    def finding(self) -> bool:
        return self._finding is not None

    def updated(self, changes: Changes) -> bool:
        """Note an update; return whether it was the one after which the models are known."""
        if not self.finding:
            return False
        self._updates += 1
        if self._updates < SETTLE_AFTER:
            return False
        self.settle(changes)
        return True

    def settle(self, changes: Changes) -> None:
        """From now on look at the calls of the models that were found."""
        self.stop_finding()
        self._settled = True
        for kind in self._kinds:
            if "__call__" not in vars(kind) or not hasattr(vars(kind)["__call__"], "autotune"):
                self._patch(kind, changes)
        self._kinds.clear()

    def misfits(self) -> dict[int, WorkloadError]:
        """Return the plan's model transforms that fit none of the models, by their index, and why."""
        return {index: error for index, error in self._refused.items() if index not in self._applied}

    def stop_finding(self) -> None:
        self._settled, self._everywhere = False, None
        if self._finding is not None:
            self._finding.undo()
            self._finding = None

    def _patch(self, kind: type[nn.Module], changes: Changes) -> None:
        plain: Any = kind.__call__
        hooks = self

        def __call__(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            if torch.compiler.is_compiling() or hooks._inside:
                return plain(module, *args, **kwargs)
            recomputed = in_backward_pass()  # by torch.utils.checkpoint
            if not (hooks._is_cast_again(module) if recomputed else hooks._is_model(module)):
                return plain(module, *args, **kwargs)
            hooks._inside = True
            everywhere = hooks._everywhere
            if everywhere:  # a compiler that looks at the modules inside shall find them as they always are
                nn.Module.__call__ = everywhere[0]  # type: ignore[method-assign]
            try:
                return (hooks._cast if recomputed else hooks.compute)(plain, module, args, kwargs)
            finally:
                hooks._inside = False
                if everywhere and everywhere is hooks._everywhere:
                    nn.Module.__call__ = everywhere[1]  # type: ignore[method-assign]

        __call__.autotune = True  # type: ignore[attr-defined]
        changes.patch(kind, "__call__", __call__)

    def _is_model(self, module: nn.Module) -> bool:
        if module in self._known:
            return True
        if self._finding is None or not any(item.requires_grad for item in module.parameters()):
            return False
        if self._looks and not torch.is_grad_enabled():
            return False  # an average or a teacher
        self._found = True
        self._known.add(module)
        self._kinds[type(module)] = None
        if not self._looks:
            self.models.append(module)
        self._transform(module)
        return True

    def _is_cast_again(self, module: nn.Module) -> bool:
        """Whether a recomputed forward needs our autocast again: of one within our forward, torch sees to that."""
        return module in self._were_cast and not torch.is_autocast_enabled(device_of(module))

    def _transform(self, model: nn.Module) -> None:
        for index, transform in enumerate(self._plan.model_transforms):
            try:
                transform(model)
                self._applied.add(index)
            except WorkloadError as error:
                self._refused[index] = error

    def _forward(self, plain: Any, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self._on_forward is not None:
            self._on_forward(module, args, kwargs)
        if not self._plan.tensor_transforms:
            return self._computed(plain, module, args, kwargs)
        with lent((args, kwargs), self._plan.tensor_transforms) as (args, kwargs):
            return self._computed(plain, module, args, kwargs)

    def _computed(self, plain: Any, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self._plan.autocast_dtype is None or _in_autocast():
            self._were_cast.discard(module)
            return plain(module, *args, **kwargs)
        self._were_cast.add(module)
        return self._cast(plain, module, args, kwargs)

    def _cast(self, plain: Any, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        assert self._plan.autocast_dtype is not None
        dtype = getattr(torch, self._plan.autocast_dtype)
        with Autocast(device_of(module), dtype):
            output = plain(module, *args, **kwargs)
        # the script's loss and metrics go on in the format that they were written for
        return map_tensors(output, lambda tensor: tensor.float() if tensor.dtype is dtype else tensor)


def device_of(module: nn.Module) -> str:
    return next((item.device.type for item in module.parameters()), "cpu")


def parameters_of(models: Sequence[nn.Module]) -> dict[str, nn.Parameter]:
    """Return the parameters of all models by name; several models are told apart by their number."""
    if len(models) == 1:
        return dict(models[0].named_parameters())
    return {f"{n}.{name}": item for n, model in enumerate(models) for name, item in model.named_parameters()}


def _in_autocast() -> bool:
    """Whether a context of torch.autocast is open, be it one that switches it off: torch counts them all."""
    opened = torch.autocast_increment_nesting() - 1
    torch.autocast_decrement_nesting()
    return opened > 0


def is_evaluating(model: nn.Module) -> bool:
    """Whether a forward of a trained model is one of an evaluation, as far as its state shows."""
    return not model.training and not torch.is_grad_enabled()


def trained_among(models: Sequence[nn.Module], optimizers: Sequence[Optimizer]) -> list[nn.Module]:
    """Return the models that the optimizers train, and not teachers and averages.

    All, where they hold no model's parameters: then it is copies of these, as of higher precision.
    """
    held = set(updated_by(optimizers))
    return [model for model in models if any(item in held for item in model.parameters())] or list(models)


def trained_by(models: Sequence[nn.Module], optimizers: Sequence[Optimizer]) -> dict[str, Tensor]:
    """Return what a script trains by name: the models' parameters, and what optimizers hold beside them."""
    found: dict[str, Tensor] = {**parameters_of(trained_among(models, optimizers))}
    known = set(found.values())
    others = dict.fromkeys(item for item in updated_by(optimizers) if item not in known)
    found.update({f"tensor {number}": item for number, item in enumerate(others)})
    return {name: item for name, item in found.items() if item.requires_grad}
