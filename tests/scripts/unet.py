"""Masks for images: an output of rank 4 and a loss for each pixel, by functions of conventional names."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import Dataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Conv2d(1, 8, 3, stride=2, padding=1)
        self.up = nn.ConvTranspose2d(8, 8, 2, stride=2)
        self.last = nn.Conv2d(9, 3, 1)

    def forward(self, images):
        small = functional.relu(self.down(images))
        return self.last(torch.cat([self.up(small), images], dim=1))


class Scans(Dataset):
    def __len__(self):
        return 96

    def __getitem__(self, index):
        return torch.randn(1, 16, 16), torch.randint(0, 3, (16, 16))


def build_model():
    return Net()


def build_dataset():
    return Scans()


def loss(output, target):
    return functional.cross_entropy(output, target)
