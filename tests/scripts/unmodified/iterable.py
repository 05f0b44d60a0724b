"""Samples come from a stream: an iterable dataset, shared out among the workers."""

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info


class Stream(IterableDataset):
    def __init__(self, length):
        self.length = length

    def __iter__(self):
        info = get_worker_info()
        first, stride = (0, 1) if info is None else (info.id, info.num_workers)
        for number in range(first, self.length, stride):
            maker = torch.Generator().manual_seed(number)
            yield torch.randn(8, generator=maker), torch.randn(1, generator=maker)


def main():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
    for _epoch in range(2):
        for x, y in DataLoader(Stream(160), batch_size=8):
            loss = nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            print("loss", loss.item().hex())
    print("end reached")


if __name__ == "__main__":
    main()
