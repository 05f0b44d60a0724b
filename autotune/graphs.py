"""The graph that autograd keeps behind a tensor."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from torch import Tensor


def nodes_behind(tensors: Iterable[Tensor]) -> Iterator[Any]:
    """Yield the nodes that a backward pass from these tensors goes through, each once."""
    pending: list[Any] = [item.grad_fn for item in tensors]
    seen: set[Any] = {None}
    while pending:
        node = pending.pop()
        if node not in seen:
            seen.add(node)
            yield node
            pending.extend(following for following, _ in node.next_functions)
