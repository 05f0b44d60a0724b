"""What is seen of a model by looking at it."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from autotune.probing.model_facts import model_facts


def frozen_beside(trained: nn.Module) -> nn.Module:
    """Return a model of which one float32 layer is not trained."""
    return nn.Sequential(nn.Linear(2, 2).requires_grad_(False), trained)


@pytest.mark.parametrize(
    ("model", "formats"),
    [
        (nn.Linear(2, 2), ("float32",)),
        (nn.Linear(2, 2).double(), ("float64",)),
        (frozen_beside(nn.Linear(2, 2).bfloat16()), ("bfloat16",)),
        (nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2).bfloat16()), ("bfloat16", "float32")),
        (nn.Linear(2, 2, dtype=torch.complex64), ()),
        (nn.ReLU(), ()),
    ],
)
def test_formats_are_those_of_the_trained_parameters(model: nn.Module, formats: tuple[str, ...]) -> None:
    assert model_facts(model)["trained_formats"] == formats
