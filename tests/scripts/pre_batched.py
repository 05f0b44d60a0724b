"""Data that come in whole batches: a Dataset of batches, any iterable of them, a generator."""

import torch
from torch import nn
from torch.utils.data import Dataset

import autotune

LENGTH = 96


def batch(size):
    return torch.randn(size, 4), torch.randint(0, 3, (size,))


class Batches(Dataset):
    def __init__(self, batch_size):
        self.batch_size = batch_size

    def __len__(self):
        return LENGTH // self.batch_size

    def __getitem__(self, index):
        if index >= len(self):
            raise IndexError(index)
        return batch(self.batch_size)


def list_of_batches(batch_size):
    return [batch(batch_size) for _ in range(LENGTH // batch_size)]


def generator_of_batches(batch_size):
    for _ in range(LENGTH // batch_size):
        yield batch(batch_size)


def make(dataset):
    return autotune.Workload(
        model=lambda: nn.Linear(4, 3), dataset=dataset, loss=nn.CrossEntropyLoss(), baseline={"batch_size": 8}
    )


dataset, listed, generated = make(Batches), make(list_of_batches), make(generator_of_batches)
