"""The compute by kind of operation, from torch's own profiler over a few steady steps."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from autotune.batches import clone
from autotune.measure.session import Session

PROFILED_STEPS = 3
MAX_PROFILED_S = 4.0

KINDS: Mapping[str, tuple[str, ...]] = {
    "optimizer": ("_foreach_", "_fused_"),
    "convolution": ("convolution", "conv1d", "conv2d", "conv3d", "conv_transpose", "mkldnn_convolution", "cudnn_conv"),
    "matmul": ("mm", "addmm", "bmm", "baddbmm", "matmul", "linear", "dot", "einsum", "attention", "addmv", "mv"),
    "normalisation": ("norm",),
    "pooling": ("pool",),
    "copy": ("copy_", "clone", "contiguous", "cat", "stack", "_to_copy", "index", "gather", "scatter", "embedding"),
    "random": ("bernoulli", "dropout", "uniform", "normal_", "rand"),
    "reduction": ("sum", "mean", "max", "min", "softmax", "nll_loss", "cross_entropy", "any", "all", "argmax", "sort"),
}
"""parts of operator names by kind, in the order in which they are tried; what has none of them is element-wise"""
NO_KERNELS = frozenset(
    """
    view reshape _unsafe_view as_strided transpose t permute unsqueeze squeeze expand select slice detach alias unbind
    split split_with_sizes chunk narrow flatten unflatten empty empty_like empty_strided resize_ result_type to
    lift_fresh is_nonzero item
    """.split()  # noqa: SIM905 -- a list of so many words is unreadable
)
"""operators that start no kernel, or only call one that does"""
GROUPED = "depthwise and grouped convolution"
ELEMENTWISE = "element-wise"


@dataclass(frozen=True, kw_only=True)
class Kinds:
    """What a step computes."""

    shares: Mapping[str, float]
    """of the time inside operations, by kind, largest first"""
    seconds: Mapping[str, float]
    """the same in seconds a step"""
    operations: int
    """started by the host in a step"""
    device_busy_s: float | None
    """seconds a step that the accelerator computes; None: there is none"""


def profile_kinds(session: Session, cached: list[Any]) -> Kinds:
    """Train on cached batches under the profiler."""
    from torch.profiler import profile

    training, device = session.training, session.device
    activities = device.profiled_activities()
    steps, began = 0, session.clock()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with profile(activities=activities, record_shapes=True) as profiler:
            while steps < PROFILED_STEPS and session.clock() - began < MAX_PROFILED_S:
                training.step(training.loader.place(clone(cached[steps % len(cached)])))
                steps += 1
            device.synchronize()
    seconds: defaultdict[str, float] = defaultdict(float)
    operations = 0
    on_device = len(activities) > 1
    for event in profiler.events():
        if not event.name.startswith("aten::"):
            continue
        own_us = float(event.self_device_time_total if on_device else event.self_cpu_time_total)
        operations += _starts_work(event.name)
        kind = "optimizer" if _in_optimizer(event) else kind_of(event.name, event.input_shapes)
        seconds[kind] += own_us * 1e-6 / steps
    total = sum(seconds.values())
    ordered = sorted(seconds.items(), key=lambda item: -item[1])
    return Kinds(
        shares={name: value / total for name, value in ordered} if total else {},
        seconds=dict(ordered),
        operations=operations // max(1, steps),
        device_busy_s=total if on_device else None,
    )


def _in_optimizer(event: Any) -> bool:
    """Whether an optimizer's step or zero_grad called the operator."""
    while event is not None:
        if event.name.startswith("Optimizer."):
            return True
        event = event.cpu_parent
    return False


def _starts_work(key: str) -> bool:
    return key.removeprefix("aten::") not in NO_KERNELS


def kind_of(key: str, input_shapes: Any = ()) -> str:
    """Return the kind of an operator by its name ("aten::addmm") and the shapes of its inputs."""
    name = key.removeprefix("aten::").lower()
    if "conv" in name and _grouped(name, input_shapes):
        return GROUPED
    for kind, parts in KINDS.items():
        if any(_has(name, part) for part in parts):
            return kind
    return ELEMENTWISE


def _has(name: str, part: str) -> bool:
    if len(part) <= 3:  # "mm" is in "comma": short names must be the whole word between underscores
        return part in name.strip("_").split("_")
    return part in name


def _grouped(name: str, shapes: Any) -> bool:
    """Whether a convolution's weight takes fewer channels than its input has."""
    tensors = [shape for shape in shapes or () if isinstance(shape, list | tuple) and len(shape) >= 3]
    if "backward" in name:  # gradient, input, weight
        tensors = tensors[1:]
    return len(tensors) >= 2 and tensors[0][1] != tensors[1][1] and "transpose" not in name
