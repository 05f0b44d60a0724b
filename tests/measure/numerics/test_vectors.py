"""Norms, angles and distances, block by block."""

from __future__ import annotations

import math

import pytest
import torch

from autotune.measure.numerics import vectors
from autotune.measure.numerics.vectors import angle, distance


def test_equals_what_torch_says_over_many_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectors, "BLOCK", 7)
    first, second = torch.randn(5, 9), torch.randn(5, 9)
    found = angle(first, second)
    assert found.norm == pytest.approx(first.double().norm().item())
    assert found.distance == pytest.approx((first.double() - second.double()).norm().item())
    assert found.cosine == pytest.approx(torch.cosine_similarity(first.flatten(), second.flatten(), 0).item(), abs=1e-6)
    assert found.ratio == pytest.approx((first.norm() / second.norm()).item())
    assert distance(first, first) == 0.0


def test_layouts_and_dtypes_may_differ() -> None:
    images = torch.randn(2, 3, 4, 4)
    assert distance(images.contiguous(memory_format=torch.channels_last), images.double()) == 0.0
    assert angle(torch.ones(3, dtype=torch.complex64), torch.ones(3, dtype=torch.complex64)).cosine == pytest.approx(1)


def test_zeros_and_what_is_no_number() -> None:
    zeros, ones = torch.zeros(3), torch.ones(3)
    assert (angle(zeros, zeros).cosine, angle(zeros, zeros).ratio) == (1.0, 1.0)
    assert (angle(zeros, ones).cosine, angle(ones, zeros).ratio) == (0.0, math.inf)
    assert math.isnan(angle(torch.tensor([math.nan, 1, 1]), ones).cosine)
    assert angle(torch.tensor([math.inf, 1, 1]), ones).norm == math.inf
    assert angle(torch.zeros(0), torch.zeros(0)).distance == 0.0
