"""Randomness off, and on again afterwards, while the model stays in training mode."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from autotune.measure.numerics.quiet import quiet


class DropPath(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.drop_prob = 0.5

    def forward(self, inputs: Tensor) -> Tensor:
        kept = 1 - self.drop_prob
        return inputs * torch.empty(inputs.shape[0], 1, 1).bernoulli_(kept) / kept


class Lstm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTM(8, 8, num_layers=2, dropout=0.5)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.cell(inputs)[0]


class Attention(nn.Module):
    def forward(self, inputs: Tensor) -> Tensor:
        return functional.scaled_dot_product_attention(inputs, inputs, inputs, None, 0.5)


class ByHand(nn.Module):
    def forward(self, inputs: Tensor) -> Tensor:
        return functional.dropout(inputs, 0.5, self.training)


RANDOM: list[Callable[[], nn.Module]] = [
    nn.Dropout,
    nn.AlphaDropout,
    DropPath,
    Lstm,
    Attention,
    ByHand,
    lambda: nn.TransformerEncoderLayer(8, 2, 16, dropout=0.5, batch_first=True),
]


@pytest.mark.parametrize("make", RANDOM)
def test_two_runs_are_alike_within_and_differ_afterwards(make: Callable[[], nn.Module]) -> None:
    torch.manual_seed(0)
    model, inputs = make().train(), torch.randn(4, 6, 8)
    with quiet(model):
        assert torch.equal(model(inputs), model(inputs))
        assert all(module.training for module in model.modules())
    assert not torch.equal(model(inputs), model(inputs))


def test_dropout_in_place_still_changes_its_input() -> None:
    model, inputs = nn.Dropout(0.5, inplace=True), torch.ones(3)
    version = inputs._version
    with quiet(model):
        assert model(inputs) is inputs
    assert inputs._version > version
    assert torch.equal(inputs, torch.ones(3))
