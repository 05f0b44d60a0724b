"""Ends with sys.exit(0), as scripts with a main() that returns a status do."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(160, 5), torch.randint(0, 2, (160,)))
    model = nn.Linear(5, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)
    for _epoch in range(3):
        for x, y in DataLoader(data, batch_size=16, shuffle=True, num_workers=0):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            print("loss", loss.item().hex())
    print("end reached")
    return 0


if __name__ == "__main__":
    sys.exit(main())
