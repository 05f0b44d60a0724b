"""Loaders of the script's own."""

import torch
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

import autotune

DATA = TensorDataset(torch.randn(128, 4), torch.randint(0, 3, (128,)))


def make(loader):
    return autotune.Workload(
        model=lambda: nn.Linear(4, 3), loader=loader, loss=nn.CrossEntropyLoss(), baseline={"batch_size": 8}
    )


def plain_loader(batch_size, **options):
    return DataLoader(DATA, batch_size=batch_size, shuffle=True, **options)


def stubborn_loader(batch_size, **options):
    return DataLoader(DATA, batch_size=16, shuffle=True, **options)


def sampler_loader(batch_size, **options):
    batches = BatchSampler(RandomSampler(DATA), batch_size=12, drop_last=False)
    return DataLoader(DATA, batch_sampler=batches, **options)


def following_sampler_loader(batch_size, **options):
    batches = BatchSampler(RandomSampler(DATA), batch_size=batch_size, drop_last=False)
    return DataLoader(DATA, batch_sampler=batches, **options)


def dropping_loader(batch_size, **options):
    batches = BatchSampler(RandomSampler(DATA), batch_size=batch_size, drop_last=True)
    return DataLoader(DATA, batch_sampler=batches, **options)


def narrow_loader(batch_size):
    return DataLoader(DATA, batch_size=batch_size, shuffle=True)


class WholeGraph:
    """One batch that is all there is."""

    def __init__(self):
        self.nodes, self.labels = torch.randn(60, 4), torch.randint(0, 3, (60,))

    def __iter__(self):
        yield self.nodes, self.labels


plain, stubborn, narrow = make(plain_loader), make(stubborn_loader), make(narrow_loader)
dropping = make(dropping_loader)
batch_sampler, following_sampler = make(sampler_loader), make(following_sampler_loader)
graph = autotune.Workload(
    model=lambda: nn.Linear(4, 3), loader=lambda batch_size, **options: WholeGraph(), loss=nn.CrossEntropyLoss()
)
