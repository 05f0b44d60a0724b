"""A small convolutional workload for trials on a card; its argument says what goes wrong in its steps."""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset

import autotune

FAULT = sys.argv[1] if len(sys.argv) > 1 else ""
GIB = 1 << 30


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.Conv2d(32, 64, 3, stride=2), nn.ReLU()
        )
        self.classify = nn.Linear(64, 10)

    def forward(self, images: Tensor) -> Tensor:
        return self.classify(self.features(images).mean((2, 3)))


def dataset() -> TensorDataset:
    draw = torch.Generator().manual_seed(0)
    return TensorDataset(torch.randn(2048, 3, 32, 32, generator=draw), torch.randint(0, 10, (2048,), generator=draw))


def fill(device: torch.device, held: list[Tensor] | None = None) -> list[Tensor]:
    """Take all memory that there is."""
    held = [] if held is None else held
    for size in (GIB, GIB // 16, GIB // 512):
        try:
            while True:
                held.append(torch.empty(size, dtype=torch.uint8, device=device))
        except torch.OutOfMemoryError:
            continue
    return held


def fault(images: Tensor) -> None:
    device = images.device
    if FAULT == "tensor too large":
        torch.empty(1 << 50, dtype=torch.uint8, device=device)
    if FAULT == "many tensors":
        held = []
        while True:
            held.append(torch.empty(GIB // 4, dtype=torch.uint8, device=device))
    if FAULT == "no room beside torch":
        held = fill(device)
        # what cuBLAS and cuDNN take for themselves finds a card that is full
        square = held.pop()[: 64 * 64 * 4].view(torch.float32).view(1, 1, 64, 64).zero_()
        held.append(square[0, 0] @ square[0, 0])
        held.append(torch.nn.functional.conv2d(square, square[:, :, :3, :3]))
        fill(device, held)
        torch.empty(GIB, dtype=torch.uint8, device=device)
    if FAULT == "index out of range":
        torch.nn.functional.embedding(torch.tensor([99], device=device), torch.ones(2, 2, device=device)).sum().item()


def training_step(model: nn.Module, batch: Any) -> Tensor:
    images, labels = batch
    fault(images)
    return cross_entropy(model(images), labels)


workload = autotune.Workload(
    model=Net,
    dataset=dataset,
    training_step=training_step,
    optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=1e-3),
    baseline={"batch_size": 64, "num_workers": 0},
)
