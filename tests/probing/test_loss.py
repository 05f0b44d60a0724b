"""How a loss reduces over its samples: found by comparing a batch's loss with those of its halves."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset

from autotune.config import Config
from autotune.measure.training import Training
from autotune.probing.loss import loss_reduction
from autotune.workload import Workload


class Odd(nn.Module):
    """Has no loss in evaluation mode."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(4, 3)

    def forward(self, x, target):
        return cross_entropy(self.head(x), target) if self.training else self.head(x)


def found(loss, model=None, target=None) -> str:
    torch.manual_seed(0)
    target = torch.arange(8) % 3 if target is None else target
    workload = Workload(
        model=model or (lambda: nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Dropout(0.5))),
        dataset=lambda: TensorDataset(torch.randn(8, 4), target),
        loss=loss,
    )
    training = Training(workload, Config(batch_size=8), device="cpu")
    return loss_reduction(training, next(iter(training.loader.host)))


def test_e8_a_mean_over_samples_a_sum_and_a_mean_over_what_counts():
    assert found(nn.CrossEntropyLoss()) == "mean"
    assert found(nn.CrossEntropyLoss(reduction="sum")) == "sum"
    padded = torch.tensor([0, -100, 1, -100, -100, 2, -100, -100])
    assert found(nn.CrossEntropyLoss(), target=padded) == "other"


@pytest.mark.parametrize("model", [Odd])
def test_what_cannot_be_compared_is_unknown(model):
    assert found(None, model=model) == ""


def test_e8_a_mean_over_tokens_whose_number_hardly_differs_is_seen():
    """At the start of training all losses are alike, so that the two means are nearly equal."""

    def loss(output, target):
        return cross_entropy(output.reshape(-1, 3) * 0.1, target.flatten(), ignore_index=0)

    torch.manual_seed(0)
    tokens = torch.randint(0, 3, (8, 12))
    assert found(loss, model=lambda: nn.Linear(4, 36), target=tokens) == "other"
    assert found(loss, model=lambda: nn.Linear(4, 36), target=tokens.clamp_min(1)) == "mean"
