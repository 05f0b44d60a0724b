"""The three workloads on which pytorch-autotune publishes its gains, in plain PyTorch, as a workload of ours.

GPU_WORKLOAD names one; GPU_TINY=1 makes it small enough for a CPU. The data are random and lie on the device, so that
no loader takes part: that tool measures one resident batch.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import Dataset

import autotune

LEARNING_RATE = 1e-3
POOLED = 2  # batches of random data
LENGTH = 1 << 16  # samples that the dataset claims to have


class Residual(nn.Module):
    """A residual block of two or three convolutions (He et al. 2016), the stride in the 3 x 3 one."""

    def __init__(self, channels_in: int, channels: int, stride: int, bottleneck: bool) -> None:
        super().__init__()
        out = 4 * channels if bottleneck else channels
        if bottleneck:
            self.body = nn.Sequential(
                *convolution(channels_in, channels, 1), nn.ReLU(inplace=True),
                *convolution(channels, channels, 3, stride), nn.ReLU(inplace=True),
                *convolution(channels, out, 1),
            )  # fmt: skip
        else:
            self.body = nn.Sequential(
                *convolution(channels_in, channels, 3, stride), nn.ReLU(inplace=True), *convolution(channels, out, 3)
            )
        same = stride == 1 and channels_in == out
        self.shortcut = nn.Identity() if same else nn.Sequential(*convolution(channels_in, out, 1, stride))

    def forward(self, x: Tensor) -> Tensor:
        return functional.relu(self.body(x) + self.shortcut(x))


def convolution(channels_in: int, channels: int, size: int, stride: int = 1) -> list[nn.Module]:
    return [
        nn.Conv2d(channels_in, channels, size, stride, padding=size // 2, bias=False),
        nn.BatchNorm2d(channels),
    ]


class ResNet(nn.Module):
    def __init__(self, depths: tuple[int, ...], bottleneck: bool, classes: int, width: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(*convolution(3, width, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1))
        blocks: list[nn.Module] = []
        channels_in = width
        for stage, depth in enumerate(depths):
            channels = width << stage
            for index in range(depth):
                blocks.append(Residual(channels_in, channels, 2 if stage and not index else 1, bottleneck))
                channels_in = 4 * channels if bottleneck else channels
        self.blocks = nn.Sequential(*blocks)
        self.classify = nn.Linear(channels_in, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.classify(self.blocks(self.stem(x)).mean((2, 3)))


class Transformer(nn.Module):
    def __init__(self, vocabulary: int, length: int, width: int, heads: int, depth: int) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        layers = (
            nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.0, activation="gelu", batch_first=True)
            for _ in range(depth)
        )
        self.layers = nn.ModuleList(layers)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, x: Tensor) -> Tensor:
        x = self.tokens(x) + self.positions.weight[: x.size(1)]
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


@dataclass(frozen=True)
class Case:
    """One of them."""

    model: Callable[[], nn.Module]
    shape: tuple[int, ...]
    """of one sample"""
    classes: int
    batch_size: int
    tokens: bool = False

    def data(self, samples: int, device: torch.device | str) -> tuple[Tensor, Tensor]:
        """Return random inputs and targets on the device."""
        draw = torch.Generator(device).manual_seed(0)
        kind = {"generator": draw, "device": device}
        if self.tokens:
            shape = (samples, *self.shape)
            return torch.randint(self.classes, shape, **kind), torch.randint(self.classes, shape, **kind)
        return torch.randn(samples, *self.shape, **kind), torch.randint(self.classes, (samples,), **kind)


CASES = {
    "resnet50": Case(lambda: ResNet((3, 4, 6, 3), True, 1000, 64), (3, 224, 224), 1000, 64),
    "resnet18": Case(lambda: ResNet((2, 2, 2, 2), False, 10, 64), (3, 32, 32), 10, 128),
    "transformer": Case(lambda: Transformer(10_000, 128, 512, 8, 6), (128,), 10_000, 32, tokens=True),
}
TINY = {
    "resnet50": Case(lambda: ResNet((1, 1), True, 10, 8), (3, 32, 32), 10, 4),
    "resnet18": Case(lambda: ResNet((1, 1), False, 10, 8), (3, 32, 32), 10, 8),
    "transformer": Case(lambda: Transformer(50, 16, 32, 2, 2), (16,), 50, 8, tokens=True),
}
NAMES = tuple(CASES)


def tiny() -> bool:
    return os.environ.get("GPU_TINY") == "1"


def chosen() -> Case:
    return (TINY if tiny() else CASES)[os.environ.get("GPU_WORKLOAD", NAMES[0])]


def loss_function(output: Tensor, target: Tensor) -> Tensor:
    return functional.cross_entropy(output.flatten(0, -2), target.flatten())


class Numbers(Dataset):
    """The numbers of the samples: what they stand for lies on the device."""

    def __len__(self) -> int:
        return LENGTH

    def __getitem__(self, index: int) -> int:
        return index


class Resident:
    """Turns numbers of samples into samples that lie on the device already."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.pool: tuple[Tensor, Tensor] | None = None

    def __call__(self, numbers: Tensor) -> tuple[Tensor, Tensor]:
        if self.pool is None:
            self.pool = self.case.data(POOLED * self.case.batch_size, numbers.device)
        rows = numbers % len(self.pool[0])
        return self.pool[0][rows], self.pool[1][rows]


workload = autotune.Workload(
    model=lambda: chosen().model(),
    dataset=Numbers,
    loss=loss_function,
    optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=LEARNING_RATE),
    batch_transform=Resident(chosen()),
    baseline={"batch_size": chosen().batch_size, "num_workers": 0},
)
