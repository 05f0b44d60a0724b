"""Images and labels; the default collate function makes a list of both."""

import torch
from torch import nn
from torch.utils.data import TensorDataset

import autotune


def build_model():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 5),
    )


workload = autotune.Workload(
    model=build_model,
    dataset=lambda: TensorDataset(torch.randn(256, 3, 8, 8), torch.randint(0, 5, (256,))),
    loss=nn.CrossEntropyLoss(),
    optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.01),
    baseline={"batch_size": 16},
)
