"""What tests of the checks inside `__getitem__` share: a training that waits for its loader."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.doctor.looking import Clean, Told, context_of, vectors, work

WAITING = {"step_s": 1.0, "compute_s": 0.1, "wait_s": 0.9, "loader_s": 0.9}
"""nine tenths of a step are loading"""
COMPUTING = {"step_s": 1.0, "compute_s": 0.99, "wait_s": 0.01, "loader_s": 0.01}


def reading_of(data: Callable[[], Any], *, ceilings: Any = None, **config: Any) -> Told:
    """Return a context over a training on `data`, of which only the reading matters: samples may be anything."""
    context = context_of(work(Clean, vectors), ceilings=ceilings or WAITING, **config)
    training = context.training
    training.dataset = data()
    training.loader = training.make_loader()
    return context
