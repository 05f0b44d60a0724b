"""An iterable dataset that shares itself out among loader workers; ends with sys.exit(0) in a finally block's reach."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info


class Numbers(IterableDataset):
    def __iter__(self):
        info = get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        for index in range(first, 400, step):
            yield torch.full((4,), index / 400), torch.tensor([index / 400])


def main():
    torch.manual_seed(0)
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    done = 0
    while True:
        try:
            for inputs, target in DataLoader(Numbers(), batch_size=20):
                loss = (model(inputs) - target).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                print("loss", loss.item().hex())
                done += 1
                if done >= 40:
                    sys.exit(0)
        except Exception as error:
            print("went on after", error)
        finally:
            print("an epoch has ended")


if __name__ == "__main__":
    main()
