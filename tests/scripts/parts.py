"""Models with tied, lazy, frozen and recurrent parts, an autoencoder, and batches that are objects."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

import autotune

BASELINE = {"batch_size": 8}


def labelled():
    return TensorDataset(torch.randn(64, 4), torch.randint(0, 3, (64,)))


def make(model, dataset=labelled, loss=None, **others):
    if loss is None and "training_step" not in others:
        loss = nn.CrossEntropyLoss()
    return autotune.Workload(model=model, dataset=dataset, loss=loss, baseline=BASELINE, **others)


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(20, 8), nn.Linear(8, 20, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens):
        return self.head(self.embed(tokens))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.head = nn.LSTM(4, 8, batch_first=True), nn.Linear(8, 3)

    def forward(self, sequences):
        return self.head(self.cell(sequences)[0][:, -1])


def half_frozen():
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    model[0].requires_grad_(False)
    return model


def all_frozen():
    return nn.Linear(4, 3).requires_grad_(False)


class Points(NamedTuple):
    inputs: Tensor
    target: Tensor


@dataclass
class Record:
    inputs: Tensor
    y: Tensor
    names: list[str]


class Bag:
    """Moves by a method of its own."""

    def __init__(self, inputs, y):
        self.inputs, self.y = inputs, y

    def to(self, device):
        return Bag(self.inputs.to(device), self.y.to(device))


class TakesObject(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(4, 3)

    def forward(self, batch):
        return self.head(batch.inputs)


def stacked(samples):
    inputs, target = zip(*samples, strict=True)
    return torch.stack(inputs), torch.stack(target)


tied = make(
    Tied,
    lambda: TensorDataset(torch.randint(0, 20, (64, 5)), torch.randint(0, 20, (64, 5))),
    lambda output, target: nn.functional.cross_entropy(output.flatten(0, 1), target.flatten()),
)
lazy = make(lambda: nn.Sequential(nn.LazyLinear(8), nn.ReLU(), nn.LazyLinear(3)))
lazy_own_step = make(
    lambda: nn.Sequential(nn.LazyLinear(8), nn.ReLU(), nn.LazyLinear(3)),
    training_step=lambda tuned, model, batch: None,
)
half = make(half_frozen)
frozen = make(all_frozen)
recurrent = make(Recurrent, lambda: TensorDataset(torch.randn(64, 6, 4), torch.randint(0, 3, (64,))))
autoencoder = make(
    lambda: nn.Sequential(nn.Linear(4, 2), nn.Linear(2, 4)),
    lambda: torch.randn(64, 4),
    nn.MSELoss(),
)
named_tuple = make(lambda: nn.Linear(4, 3), collate_fn=lambda samples: Points(*stacked(samples)))
data_class = make(TakesObject, collate_fn=lambda samples: Record(*stacked(samples), ["name", None]))
own_object = make(TakesObject, collate_fn=lambda samples: Bag(*stacked(samples)))
