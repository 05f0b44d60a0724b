"""Norms, angles and distances of gradients, block by block: a copy of a large one in float64 would not fit."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

BLOCK = 1 << 22  # elements: 32 MiB in float64


@dataclass(frozen=True, kw_only=True)
class Angle:
    """Two vectors beside each other. Anything not finite in them shows as nan or inf."""

    norm: float
    other_norm: float
    distance: float
    cosine: float
    """1.0 where both are zero"""

    @property
    def ratio(self) -> float:
        """The first norm over the other; 1.0 where both are zero."""
        if self.other_norm == 0.0:
            return 1.0 if self.norm == 0.0 else math.inf
        return self.norm / self.other_norm


def angle(first: Tensor, second: Tensor) -> Angle:
    """Compare two tensors of one shape, as vectors, with sums in float64."""
    squares = [0.0, 0.0, 0.0, 0.0]
    for block, other_block in zip(_blocks(first), _blocks(second), strict=True):
        a, b = block.double(), other_block.double()
        difference = a - b
        for index, (left, right) in enumerate(((a, a), (b, b), (difference, difference), (a, b))):
            squares[index] += float(torch.dot(left, right))
    norm, other = _root(squares[0]), _root(squares[1])
    product = norm * other
    cosine = squares[3] / product if product else float(norm == other)
    return Angle(norm=norm, other_norm=other, distance=_root(squares[2]), cosine=cosine)


def distance(first: Tensor, second: Tensor) -> float:
    """Return the norm of the difference of two tensors of one shape."""
    return angle(first, second).distance


def dense(gradient: Tensor) -> Tensor:
    """Return a copy of a gradient: an ordinary tensor where an embedding leaves a sparse one."""
    return (gradient.to_dense() if gradient.is_sparse else gradient).detach().clone()


def _root(square: float) -> float:
    return math.sqrt(square) if square >= 0 else math.nan  # a nan is not >= 0 either


def _blocks(tensor: Tensor) -> tuple[Tensor, ...]:
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    return torch.split(tensor.reshape(-1), BLOCK)
