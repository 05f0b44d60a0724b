"""torch.optim's implementations (one tensor at a time, foreach, fused) in whatever optimizers a factory builds."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from typing import Any

import torch
from torch.optim import Optimizer
from torch.optim.optimizer import _default_to_fused_or_foreach

PLAIN = "plain"
"""one parameter at a time"""


@contextmanager
def built_with(flags: Mapping[str, bool]) -> Iterator[None]:
    """Let every optimizer that is built inside be built as if its constructor had been given these flags.

    A factory may take no arguments for its optimizers. Flags set afterwards would not do: constructors derive more from
    them (a fused optimizer unscales gradients itself). A class that lacks the flag that is switched on stays as it is.
    """
    wanted = [name for name, on in flags.items() if on]
    patched: list[tuple[type[Optimizer], Any]] = []
    if wanted:
        for kind in _subclasses(Optimizer):
            own = kind.__dict__.get("__init__")
            if own is not None and all(name in inspect.signature(own).parameters for name in wanted):
                patched.append((kind, own))
                kind.__init__ = _given(own, flags)  # type: ignore[method-assign]
    try:
        yield
    finally:
        for kind, own in patched:
            kind.__init__ = own  # type: ignore[method-assign]


def implementations(optimizer: Optimizer) -> set[str]:
    """Return what the parameter groups of an optimizer run by: "fused", "foreach" or "plain"."""
    return {_of_group(group) for group in optimizer.param_groups}


def skipped(optimizer: Optimizer) -> bool:
    """Whether a step that is going on, or just went, left the parameters alone since gradients were not finite.

    A gradient scaler leaves that to optimizers that can see to it themselves (the fused ones): their step is called,
    its hooks too, with what was found in an attribute.
    """
    found = getattr(optimizer, "found_inf", None)
    return found is not None and bool(found.item())


def _given(own: Callable[..., None], flags: Mapping[str, bool]) -> Callable[..., None]:
    signature = inspect.signature(own)
    taken = {name: on for name, on in flags.items() if name in signature.parameters}
    keep = _keeping(taken)

    @wraps(own)
    def build(self: Optimizer, *args: Any, **kwargs: Any) -> None:
        bound = signature.bind_partial(self, *args, **kwargs)
        bound.arguments.update(taken)
        own(*bound.args, **bound.kwargs)
        self.register_load_state_dict_pre_hook(keep)

    return build


def _keeping(flags: Mapping[str, bool]) -> Callable[[Optimizer, dict[str, Any]], dict[str, Any]]:
    """Return a hook that keeps the flags where a checkpoint is taken up, which holds those that it was saved under.

    It would undo them; and an optimizer that was built as a fused one, and is none any more, fails under a scaler.
    """

    def keep(optimizer: Optimizer, state: dict[str, Any]) -> dict[str, Any]:
        return {**state, "param_groups": [{**group, **flags} for group in state["param_groups"]]}

    return keep


def _subclasses(kind: type[Optimizer]) -> Iterable[type[Optimizer]]:
    for child in kind.__subclasses__():
        yield child
        yield from _subclasses(child)


def _of_group(group: Mapping[str, Any]) -> str:
    if group.get("fused"):
        return "fused"
    if group.get("foreach") is None and "foreach" in group and not group.get("fused"):
        parameters: list[torch.Tensor] = list(group["params"])
        return "foreach" if _default_to_fused_or_foreach(parameters, bool(group.get("differentiable")))[1] else PLAIN
    return "foreach" if group.get("foreach") else PLAIN
