"""Three small models that between them have what options stumble over, as workloads with data of their own."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import TensorDataset

from autotune.workload import Workload

BATCH = 16


class Convolutions(nn.Module):
    """Grouped and depthwise convolutions with BatchNorm, dropout, and a bias that BatchNorm makes idle."""

    class Block(nn.Module):
        def __init__(self, channels: int) -> None:
            super().__init__()
            self.depthwise = nn.Conv2d(channels, channels, 3, padding=1, groups=channels)
            self.grouped = nn.Conv2d(channels, channels, 1, groups=2, bias=False)
            self.norm = nn.BatchNorm2d(channels)
            self.act = nn.ReLU()
            self.dropout = nn.Dropout(0.2)

        def forward(self, images: Tensor) -> Tensor:
            return images + self.dropout(self.act(self.norm(self.grouped(self.depthwise(images)))))

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.blocks = nn.Sequential(*[self.Block(8) for _ in range(3)])
        self.head = nn.Linear(8, 4)

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.blocks(self.stem(images)).mean((2, 3)))


class Transformer(nn.Module):
    """A language model whose output layer is its embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, 16)
        self.blocks = nn.ModuleList(
            [nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, batch_first=True) for _ in range(2)]
        )
        self.head = nn.Linear(16, 20, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens: Tensor) -> Tensor:
        hidden = self.embed(tokens)
        for block in self.blocks:
            hidden = block(hidden)
        return self.head(hidden)


class Recurrent(nn.Module):
    """Two layers of LSTM with dropout between them."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTM(5, 12, num_layers=2, dropout=0.3, batch_first=True)
        self.head = nn.Sequential(nn.Linear(12, 12), nn.SiLU(), nn.Linear(12, 3))

    def forward(self, sequences: Tensor) -> Tensor:
        return self.head(self.cell(sequences)[0][:, -1])


def data(seed: int = 1) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def convolutions(**changes: Any) -> Workload:
    def dataset() -> TensorDataset:
        labels = torch.randint(0, 4, (80,), generator=data())
        return TensorDataset(torch.randn(80, 3, 8, 8, generator=data()) + labels[:, None, None, None] / 2, labels)

    parts = {"model": Convolutions, "dataset": dataset, "loss": nn.CrossEntropyLoss()}
    return Workload(**{**parts, "baseline": {"batch_size": BATCH}, **changes})


def transformer(**changes: Any) -> Workload:
    def dataset() -> TensorDataset:
        tokens = torch.randint(0, 20, (80, 9), generator=data())
        return TensorDataset(tokens[:, :-1], tokens[:, 1:])

    def loss(output: Tensor, target: Tensor) -> Tensor:
        return functional.cross_entropy(output.flatten(0, 1), target.flatten())

    parts = {"model": Transformer, "dataset": dataset, "loss": loss}
    return Workload(**{**parts, "baseline": {"batch_size": BATCH}, **changes})


def recurrent(**changes: Any) -> Workload:
    def dataset() -> TensorDataset:
        return TensorDataset(torch.randn(80, 6, 5, generator=data()), torch.randint(0, 3, (80,), generator=data()))

    parts = {"model": Recurrent, "dataset": dataset, "loss": nn.CrossEntropyLoss()}
    return Workload(**{**parts, "baseline": {"batch_size": BATCH}, **changes})


SMALL_MODELS = {"convolutions": convolutions, "transformer": transformer, "recurrent": recurrent}
