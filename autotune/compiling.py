"""torch.compile of a model in place, and what it did: graphs, seconds, recompilations.

Ansel et al. 2024, "PyTorch 2: Faster Machine Learning Through Dynamic Python Bytecode Transformation and Graph
Compilation". The module stays what it is, and so do its state_dict keys.
"""

from __future__ import annotations

import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from types import MethodType
from typing import Any

import torch
from torch import Tensor, nn

from autotune.errors import WorkloadError

FRAMES = ("entire_frame_compile", "entire_backward_compile")
"""torch's own timers of a compilation: of the forward, and of a backward compiled later"""


@dataclass(frozen=True)
class Compiles:
    """What this process has compiled so far."""

    graphs: int = 0
    seconds: float = 0.0
    cached: bool = False
    """whether a part of it came from the compile cache, so that the seconds are fewer than a first run's"""


def compile_model(model: nn.Module, mode: str) -> nn.Module:
    """Compile the model's calls with a mode of torch.compile; changes the model in place.

    `nn.Module.compile` by its own name, since classes exist that have another `compile`. It compiles nothing where
    the forward is torch's own (Sequential, TransformerEncoder), whose frames dynamo skips: there the forward itself
    is given to torch.compile, which inlines it.
    """
    if type(model).forward.__module__.startswith("torch."):
        model.forward = _CompiledForward(model, mode)
    else:
        nn.Module.compile(model, mode=mode)
    return model


def so_far() -> Compiles:
    """Return what was compiled in this process, by torch's own counters; cheap enough for every step."""
    utils = sys.modules.get("torch._dynamo.utils")
    if utils is None:
        return Compiles()
    counters, spent = utils.counters, utils.cumulative_time_spent_ns
    hits = counters["inductor"]["fxgraph_cache_hit"] + counters["aot_autograd"]["autograd_cache_hit"]
    seconds = sum(spent.get(name, 0) for name in FRAMES) / 1e9
    return Compiles(counters["stats"]["unique_graphs"], seconds, hits > 0)


def kept(loss: Tensor) -> Tensor:
    """Return a loss to be read later: what a CUDA graph returned, the script's own too, its next run overwrites."""
    return loss.detach().clone() if so_far().graphs else loss.detach()


def end_workers() -> None:
    """End inductor's compile processes, which would count as the trial's; it starts others where it needs them."""
    module = sys.modules.get("torch._inductor.async_compile")
    if module is not None:
        module.shutdown_compile_workers()


def refuse_torchscript(model: nn.Module) -> None:
    """Raise WorkloadError where the model takes no hooks and has no forward of Python's."""
    if isinstance(model, torch.jit.ScriptModule):
        raise WorkloadError(
            "the model is TorchScript, whose calls can be neither watched nor changed",
            hint="Train the module that it was made of; compile_mode tries torch.compile in TorchScript's place.",
        )


def own_compile(model: nn.Module) -> bool:
    """Whether the model, or a part of it, is compiled by its own code."""
    return any(
        hasattr(module, "_orig_mod")
        or module._compiled_call_impl is not None
        or hasattr(module.forward, "_torchdynamo_orig_callable")
        for module in model.modules()
    )


def why_no_compiler(device_type: str) -> str | None:
    """Return what inductor lacks on this machine, or None: asked once, rather than by failing trials.

    The CPU's kernels are C++ with Python's headers; an accelerator's are Triton's, whose launcher is C.
    """
    from torch._inductor.cpp_builder import get_cpp_compiler
    from torch._inductor.exc import InvalidCxxCompiler

    try:
        get_cpp_compiler()
    except InvalidCxxCompiler:
        return "torch.compile needs a C++ compiler, and there is none (g++)"
    if not (Path(sysconfig.get_path("include")) / "Python.h").exists():
        return "torch.compile needs Python's headers, and Python.h is missing (python3-dev)"
    if device_type != "cpu":
        from torch.utils._triton import has_triton

        if not has_triton():
            return "torch.compile needs Triton for this device, and it does not work here"
    return None


class _CompiledForward:
    """The forward of a module whose class is torch's own, compiled at its first call.

    An object rather than a closure: a deep copy of the model has one of its own, and a model saved whole can be
    loaded again. As with `nn.Module.compile`, copies are not compiled.
    """

    def __init__(self, module: nn.Module, mode: str) -> None:
        self._module = module
        self._mode: str | None = mode
        self._inner = module.__dict__.get("forward")  # what checkpointing put there
        self._compiled: Any = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._compiled is None:
            plain = MethodType(type(self._module).forward, self._module)
            forward = plain if self._inner is None else self._inner.__call__
            self._compiled = forward if self._mode is None else torch.compile(forward, mode=self._mode)
        return self._compiled(*args, **kwargs)

    def __getstate__(self) -> dict[str, Any]:
        return {"_module": self._module, "_mode": None, "_inner": self._inner, "_compiled": None}
