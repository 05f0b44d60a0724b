"""Memory that grows with every step: losses kept with their graph, outputs in a list. Technique 33."""

from __future__ import annotations

import ast
import gc
import itertools
import types
from collections.abc import Iterator
from typing import Any

from torch import Tensor, nn

from autotune.doctor.context import Context
from autotune.doctor.findings import Finding, Gain, Gives
from autotune.doctor.lines import find_nodes
from autotune.graphs import nodes_behind
from autotune.words.figures import memory

STEPS = 6
MIN_BYTES = 1 << 20  # a step, where no graph is held
MAX_NODES = 200_000
ADDS = frozenset(["append", "extend", "add", "appendleft", "insert", "update", "setdefault", "put"])


def check(context: Context) -> Iterator[Finding]:
    context.run_steps(2)  # what is made once is there
    gc.collect()
    earlier = [item for item in gc.get_objects() if type(item) is Tensor]
    gc.freeze()  # what is there already need not be looked through again and again
    try:
        held = []
        for _ in range(STEPS + 1):
            context.run_steps(1)
            held.append(_held(context.training.model, earlier))
    finally:
        gc.unfreeze()
    before, after = held[0], held[-1]
    new = [item for key, item in after.items() if key not in before]
    nodes = [_graph_nodes(list(now.values())) for now in (held[0], held[STEPS // 2], held[-1])]
    grows = all(len(later) > len(earlier) for earlier, later in itertools.pairwise(held))
    bytes_a_step = sum(item.numel() * item.element_size() for item in new) // STEPS
    del held, before, earlier
    keeps_graph = nodes[0] < nodes[1] < nodes[2]
    if not keeps_graph and not (grows and bytes_a_step >= MIN_BYTES):
        return
    suspects = [item for item in (new or list(after.values())) if item.grad_fn is not None or not keeps_graph]
    names = list(dict.fromkeys(name for item in suspects[-3:] for name in holders(item)))
    places = [str(line) for name in names for line in _lines_that_fill(name)]
    graph = f"{(nodes[2] - nodes[0]) // STEPS} nodes of autograd's graph" if keeps_graph else ""
    size = memory(bytes_a_step) if bytes_a_step >= MIN_BYTES or not keeps_graph else ""
    yield Finding(
        check="memory_growth",
        gives=Gives.RESULT,
        seen=f"every step leaves {' and '.join(part for part in (graph, size) if part)} behind",
        where=tuple(dict.fromkeys(places)) or tuple(names) or ("unknown: nothing of Python's own holds them",),
        remedy=("losses.append(loss.detach())  # or loss.item(), now and then; the graph ends there",),
        gain=Gain(saved_bytes=bytes_a_step if bytes_a_step >= MIN_BYTES else 0),
        why="memory grows until the training ends or runs out of it"
        + (f"; held by {', '.join(names)}" if names else ""),
    )


def _held(model: nn.Module, earlier: list[Tensor]) -> dict[int, Tensor]:
    """Return the tensors alive now that are no parameters, by identity; all of them stay alive in it."""
    gc.collect()
    own = {id(item) for item in (*model.parameters(), *model.buffers())}
    own |= {id(item.grad) for item in model.parameters() if item.grad is not None}
    alive = [*earlier, *(item for item in gc.get_objects() if type(item) is Tensor)]
    return {id(item): item for item in alive if id(item) not in own}


def _graph_nodes(tensors: list[Tensor]) -> int:
    """Return how many nodes of autograd's graph these tensors keep alive."""
    return sum(1 for _ in itertools.islice(nodes_behind(tensors), MAX_NODES))


def holders(item: object, depth: int = 4) -> list[str]:
    """Return the names by which the user's objects hold `item`: "history", "Model.losses"."""
    names: list[str] = []
    level, seen = [item], {id(item)}
    for _ in range(depth):
        above: list[Any] = []
        for held in level:
            for referrer in gc.get_referrers(held):
                if id(referrer) in seen or isinstance(referrer, types.FrameType) or referrer is level:
                    continue
                seen.add(id(referrer))
                name = _name_in(referrer, held)
                if name:
                    names.append(name)
                elif isinstance(referrer, list | dict | tuple | set) or type(referrer).__module__ == "collections":
                    above.append(referrer)
        if names:
            return names
        level = above
    return names


def _name_in(referrer: Any, held: object) -> str:
    """Return the name under which `referrer` holds an object; empty where it is only a container."""
    if isinstance(referrer, types.CellType):
        closures = [item for item in gc.get_referrers(referrer) if isinstance(item, tuple)]
        for closure, owner in ((item, owner) for item in closures for owner in gc.get_referrers(item)):
            if isinstance(owner, types.FunctionType) and owner.__closure__ is closure:
                return owner.__code__.co_freevars[closure.index(referrer)]
        return ""
    if isinstance(referrer, dict):
        key = next((key for key, value in referrer.items() if value is held and isinstance(key, str)), "")
        if "__name__" in referrer and "__builtins__" in referrer:
            return key if not str(referrer["__name__"]).startswith(("autotune", "torch")) else ""
        owner = next((one for one in gc.get_referrers(referrer) if getattr(one, "__dict__", None) is referrer), None)
        return f"{type(owner).__name__}.{key}" if owner is not None and key else ""
    if hasattr(referrer, "__dict__") and not isinstance(referrer, type | types.ModuleType | Tensor):
        key = next((key for key, value in vars(referrer).items() if value is held), "")
        return f"{type(referrer).__name__}.{key}" if key else ""
    return ""


def _lines_that_fill(name: str) -> list[Any]:
    """Return the user's lines that add to what is called `name`; those that assign to it where none does."""
    last = name.rpartition(".")[2]

    def named(node: ast.AST | None) -> bool:
        if isinstance(node, ast.Subscript):
            return named(node.value)
        return (isinstance(node, ast.Name) and node.id == last) or (
            isinstance(node, ast.Attribute) and node.attr == last
        )

    def adds(node: ast.AST) -> bool:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            return node.func.attr in ADDS and named(node.func.value)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
            return named(node.targets[0])
        return isinstance(node, ast.AugAssign) and named(node.target)

    def assigns(node: ast.AST) -> bool:
        return (
            isinstance(node, ast.Assign)
            and named(node.targets[0])
            and not isinstance(node.value, ast.Constant | ast.List)
        )

    return list(find_nodes(adds)) or list(find_nodes(assigns))
