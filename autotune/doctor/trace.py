"""What happens in a step, operation by operation: noted while it runs, with the user's line."""

from __future__ import annotations

import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.weak import WeakTensorKeyDictionary

from autotune.batches import clone, tensors
from autotune.device import on_host
from autotune.doctor.kinds import NO_KERNELS
from autotune.doctor.lines import Line, in_backward, line_of, users

if TYPE_CHECKING:
    from types import FrameType

    from autotune.doctor.context import Context

READS = {
    "item": ".item()",
    "tolist": ".tolist()",
    "numpy": ".numpy()",
    "__array__": "numpy of a tensor",
    "__bool__": "the truth of a tensor",
    "__float__": "float() of a tensor",
    "__int__": "int() of a tensor",
    "__index__": "a tensor as an index",
    "__complex__": "complex() of a tensor",
    "__repr__": "printing a tensor",
    "__format__": "printing a tensor",
    "__contains__": "`in` a tensor",
    "cpu": ".cpu()",
    "equal": "torch.equal()",
    "allclose": "torch.allclose()",
    "nonzero": "nonzero()",
    "argwhere": "argwhere()",
    "masked_select": "masked_select()",
    "unique": "unique()",
    "unique_consecutive": "unique_consecutive()",
    "bincount": "bincount()",
}
"""functions whose result, or its size, the host must know: it waits for the device"""
SIZED_BY_DATA = ("nonzero", "argwhere", "masked_select", "unique", "unique_consecutive", "bincount")
FACTORIES = frozenset(
    """
    tensor as_tensor from_numpy zeros ones full empty arange linspace logspace eye rand randn randint randperm
    """.split()  # noqa: SIM905 -- a list of so many words is unreadable
)
MIN_REPEATS = 16  # of one operation at one line in a step, to be a loop
GATHERING = frozenset({"add", "add_", "sub", "cat", "stack", "maximum", "minimum"})
"""operations that gather what a loop computes: a chain of them is no recurrence"""
MIN_INDEPENDENT = 4  # operations for each that must wait for another of them
SMALL_ELEMENTS = 1 << 14  # of an output
MOVES = ("to", "cuda", "type_as")
TORCH_WRAPPERS = ("torch/_tensor.py", "torch/_tensor_str.py", "torch/overrides.py", "torch/functional.py")
"""files whose frames lie between the user's line and a function that it calls"""


@dataclass
class Operation:
    """One kind of operation at one line."""

    count: int = 0
    elements: int = 0
    """of all outputs together"""
    seconds: float = 0.0
    """inside torch's kernels, without what Python adds"""

    depth: int = 0
    """longest chain of these operations in a step, each of which needs the one before: so many remain if batched"""

    @property
    def small(self) -> bool:
        """Whether starting it takes longer than computing it."""
        return self.elements <= SMALL_ELEMENTS * self.count


@dataclass
class Trace:
    """What was noted in `steps` steps."""

    steps: int
    operations: dict[tuple[str, Line | None, bool], Operation] = field(default_factory=dict)
    """by name, the user's line that made it necessary, and whether the backward pass called it"""
    reads: Counter[tuple[str, Line]] = field(default_factory=Counter)
    """results that the host waits for, by what they are"""
    moved: Counter[tuple[str, Line]] = field(default_factory=Counter)
    """tensors made on the host and then moved, by the function that made them and its line"""
    copies: Counter[tuple[str, Line]] = field(default_factory=Counter)
    """other copies between host and device: "to the device", "to the host" """
    full_zeros: Counter[Line] = field(default_factory=Counter)
    """gradients set to zeros instead of None"""
    anomaly: bool = False
    """anomaly detection was on"""
    autocast: set[str] = field(default_factory=set)
    """types that the step asked autocast for, by name"""
    updates: int = 0
    """optimizer steps"""

    def seconds(self, lines: Set[Line] | None = None, *, backward: bool) -> float:
        """Return the seconds inside kernels of the forward or the backward pass, of these lines or of all."""
        return sum(
            noted.seconds
            for (_, line, behind), noted in self.operations.items()
            if behind is backward and (lines is None or line in lines)
        )

    def repeated(self) -> dict[Line, dict[str, Operation]]:
        """Return the lines that run one small operation again and again, though it could be one on many values."""
        found: dict[Line, dict[str, Operation]] = {}
        recurrent: set[Line] = set()
        for (name, line, backward), noted in self.operations.items():
            repeats = noted.count // self.steps
            if backward or line is None or name in NO_KERNELS or repeats < MIN_REPEATS:
                continue
            if MIN_INDEPENDENT * noted.depth > repeats and name not in GATHERING:
                recurrent.add(line)
            elif noted.small:
                found.setdefault(line, {})[name] = noted
        return {line: operations for line, operations in found.items() if line not in recurrent}


def trace_steps(context: Context, steps: int) -> Trace:
    """Train on cached batches with every operation noted."""
    trace = Trace(steps)
    training = context.training
    handles = [item.register_step_post_hook(lambda *_: _count_update(trace)) for item in training.optimizers]
    try:
        with warnings.catch_warnings(), context.eager():
            warnings.simplefilter("ignore")  # a second frame between the user's line and torch moves where they point
            for index in range(steps):
                nodes: dict[Any, Line] = {}
                batch = training.loader.place(clone(context.cached[index % len(context.cached)]))
                with _watching_calls(trace), _Operations(trace, nodes), _Functions(trace, nodes):
                    training.step(batch)
        with context.session.device.synchronisations() as seen:
            context.run_steps(steps)
        for place in seen:
            if users(place[0]) and not any(line == place for _, line in trace.reads):
                trace.reads["waiting for the device", Line(*place)] += 1
    finally:
        for handle in handles:
            handle.remove()
    return trace


def _count_update(trace: Trace) -> None:
    trace.updates += 1


class _Operations(TorchDispatchMode):
    """Notes what reaches torch's kernels, the backward pass included."""

    def __init__(self, trace: Trace, nodes: dict[Any, Line]) -> None:
        super().__init__()
        self._trace = trace
        self._nodes = nodes
        self._depths = WeakTensorKeyDictionary()
        """of each tensor, how many operations of each kind it needed one after the other"""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        began = time.perf_counter()
        result = func(*args, **(kwargs or {}))
        took = time.perf_counter() - began
        frame = sys._getframe(1)
        backward = in_backward(frame)
        name = func.overloadpacket.__name__
        self._trace.anomaly |= torch.is_anomaly_enabled()
        # the backward pass knows no line: that of the forward operation whose node it works on
        line = self._nodes.get(torch._C._current_autograd_node()) if backward else line_of(frame)
        noted = self._trace.operations.setdefault((name, line, backward), Operation())
        noted.count += 1
        noted.seconds += took
        if not backward:
            noted.depth = max(noted.depth, self._chain((name, line), [args, kwargs], result))
        noted.elements += sum(item.numel() for item in tensors(result))
        return result

    def _chain(self, key: tuple[str, Line | None], given: Any, result: Any) -> int:
        """Return how many operations of this name and line, one after the other, led to the result."""
        depths: dict[tuple[str, Line | None], int] = {}
        for item in tensors(given):
            for other, depth in self._depths.get(item, {}).items():
                depths[other] = max(depth, depths.get(other, 0))
        depths[key] = depths.get(key, 0) + 1
        for item in tensors(result):
            self._depths[item] = depths
        return depths[key]


class _Functions(TorchFunctionMode):
    """Notes the functions and methods that Python code calls."""

    def __init__(self, trace: Trace, nodes: dict[Any, Line]) -> None:
        super().__init__()
        self._trace = trace
        self._nodes = nodes
        """autograd's nodes, with the user's line that made them"""
        self._on_host: dict[int, tuple[str, Line, Any]] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        frame = sys._getframe(1)
        self._note_nodes(result, line_of(frame))
        line = _direct_line(frame)
        if line is not None:
            name = getattr(func, "__name__", "")
            self._note_read(name, line, args, kwargs)
            self._note_host(name, line, args, kwargs, result)
        return result

    def _note_nodes(self, result: Any, line: Line | None) -> None:
        pending: list[Any] = [item.grad_fn for item in tensors(result) if item.grad_fn is not None] if line else []
        while pending:
            node = pending.pop()
            if node is not None and node not in self._nodes and line is not None:
                self._nodes[node] = line
                pending.extend(following for following, _ in node.next_functions)

    def _note_read(self, name: str, line: Line, args: Any, kwargs: Any) -> None:
        what = READS.get(name)
        if (name == "__getitem__" and _has_mask(args[1])) or (
            name == "__setitem__" and _has_mask(args[1]) and isinstance(args[2], Tensor) and args[2].numel() > 1
        ):
            what = "indexing by a mask"
        elif name == "where" and len(args) + len(kwargs) == 1:
            what = "where() of a condition alone"
        elif name == "to" and _to_host(args[1:], kwargs):
            what = '.to("cpu")'
        if what is None or self._known_on_host(args):
            return
        self._trace.reads[what, line] += 1

    def _known_on_host(self, args: Any) -> bool:
        """Whether the first tensor was made on the host in this step and never left it."""
        first = args[0] if args else None
        return isinstance(first, Tensor) and id(first) in self._on_host

    def _note_host(self, name: str, line: Line, args: Any, kwargs: Any, result: Any) -> None:
        if not isinstance(result, Tensor):
            return
        if name in FACTORIES:
            if kwargs.get("device") is None and on_host(result):
                self._on_host[id(result)] = (name, line, result)
            return
        given = list(tensors([args, kwargs]))
        if name in MOVES and given and _names_device(name, args[1:], kwargs):
            made = self._on_host.get(id(given[0]))
            if _to_host(args[1:], kwargs):
                return
            if made is not None:
                self._trace.moved[made[0], made[1]] += 1
            elif result.device != given[0].device:
                self._trace.copies["to the host" if on_host(result) else "to the device", line] += 1
            return
        if given and all(id(item) in self._on_host for item in given):  # what is made from it lies there too
            self._on_host[id(result)] = (*self._on_host[id(given[0])][:2], result)


@contextmanager
def _watching_calls(trace: Trace) -> Iterator[None]:
    """Note the calls that no mode sees: gradients set to zeros, autocast entered."""
    zero, module_zero, enter = Optimizer.zero_grad, nn.Module.zero_grad, torch.autocast.__enter__

    def note_zeros(set_to_none: bool) -> None:
        line = line_of(sys._getframe(2))
        if not set_to_none and line is not None:
            trace.full_zeros[line] += 1

    def zero_grad(self: Any, set_to_none: bool = True) -> None:
        note_zeros(set_to_none)
        zero(self, set_to_none)

    def module_zero_grad(self: Any, set_to_none: bool = True) -> None:
        note_zeros(set_to_none)
        module_zero(self, set_to_none)

    def enter_autocast(self: Any) -> Any:
        entered = enter(self)
        if self._enabled:
            trace.autocast.add(str(self.fast_dtype).removeprefix("torch."))
        return entered

    Optimizer.zero_grad = zero_grad  # type: ignore[method-assign]
    nn.Module.zero_grad = module_zero_grad  # type: ignore[method-assign]
    torch.autocast.__enter__ = enter_autocast  # type: ignore[method-assign]
    try:
        yield
    finally:
        Optimizer.zero_grad = zero  # type: ignore[method-assign]
        nn.Module.zero_grad = module_zero  # type: ignore[method-assign]
        torch.autocast.__enter__ = enter  # type: ignore[method-assign]


def _direct_line(frame: FrameType | None) -> Line | None:
    """Return the user's line that called a function itself; None where a library did on its behalf."""
    while frame is not None:
        name = frame.f_code.co_filename
        if users(name):
            return Line(name, frame.f_lineno)
        if not name.endswith(TORCH_WRAPPERS):
            return None
        frame = frame.f_back
    return None


def _has_mask(index: Any) -> bool:
    parts = index if isinstance(index, tuple) else (index,)
    return any(isinstance(part, Tensor) and part.dtype in (torch.bool, torch.uint8) for part in parts)


def _names_device(name: str, args: Any, kwargs: Any) -> bool:
    """Whether a `.to()` is about the device rather than the type."""
    if name in ("cuda", "type_as"):
        return True
    return any(isinstance(item, torch.device | str | Tensor) for item in (*args[:1], kwargs.get("device")))


def _to_host(args: Any, kwargs: Any) -> bool:
    """Whether the line itself says that it wants the host."""
    return bool(kwargs.get("device", args[0] if args else None) == "cpu")  # a torch.device is another thing
