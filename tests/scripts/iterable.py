"""Samples from streams: one that shares the work among loader workers, one that each worker reads whole."""

import torch
from torch import nn
from torch.utils.data import IterableDataset, get_worker_info

import autotune

LENGTH = 90


class Whole(IterableDataset):
    def numbers(self):
        return range(LENGTH)

    def __iter__(self):
        for index in self.numbers():
            yield torch.full((4,), index / LENGTH), index % 3


class Shared(Whole):
    def numbers(self):
        worker = get_worker_info()
        return range(LENGTH) if worker is None else range(worker.id, LENGTH, worker.num_workers)


def make(dataset):
    return autotune.Workload(
        model=lambda: nn.Linear(4, 3), dataset=dataset, loss=nn.CrossEntropyLoss(), baseline={"batch_size": 8}
    )


whole, shared = make(Whole), make(Shared)
