"""The model computes its loss itself and returns it among its outputs."""

from dataclasses import dataclass

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


@dataclass
class Output:
    loss: torch.Tensor
    logits: torch.Tensor


class Pairs(Dataset):
    def __init__(self, count):
        maker = torch.Generator().manual_seed(0)
        self.x = torch.randn(count, 8, generator=maker)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        return {"x": self.x[index], "labels": self.x[index].sum() > 0}


class Model(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, width), nn.ReLU(), nn.Linear(width, 1))

    def forward(self, x, labels):
        logits = self.layers(x).squeeze(-1)
        return Output(nn.functional.binary_cross_entropy_with_logits(logits, labels.float()), logits)


if __name__ == "__main__":
    torch.manual_seed(0)
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _epoch in range(3):
        for batch in DataLoader(Pairs(128), batch_size=16, shuffle=True):
            outputs = model(**batch)
            outputs.loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            print("loss", outputs.loss.item().hex())
    print("end reached")
