"""Sequences of different lengths, padded by the collate function."""

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import Dataset

import autotune


class Sequences(Dataset):
    def __len__(self):
        return 120

    def __getitem__(self, index):
        return torch.randn(3 + index % 9, 4), index % 2


def collate(samples):
    sequences, labels = zip(*samples, strict=True)
    return pad_sequence(sequences, batch_first=True), torch.tensor(labels)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.recurrent = nn.GRU(4, 8, batch_first=True)
        self.head = nn.Linear(8, 2)

    def forward(self, sequences):
        return self.head(self.recurrent(sequences)[0][:, -1])


padded = autotune.Workload(
    model=Recurrent, dataset=Sequences, loss=nn.CrossEntropyLoss(), collate_fn=collate, baseline={"batch_size": 4}
)
unpadded = autotune.Workload(model=Recurrent, dataset=Sequences, loss=nn.CrossEntropyLoss(), baseline={"batch_size": 4})
