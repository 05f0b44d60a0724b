"""A language model that draws its batches from a memory-mapped file and reads settings in its own folder."""

import json
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

folder = Path(__file__).parent
settings = json.loads((folder / "memmap.json").read_text())
batch_size, block_size = settings["batch_size"], 16
gradient_accumulation_steps = 2
eval_interval, max_iters = 20, 60
torch.manual_seed(1337)
data = np.memmap(folder / "memmap.json", dtype=np.uint8, mode="r")


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.net = nn.LayerNorm(width), nn.Sequential(nn.Linear(width, width), nn.GELU())

    def forward(self, x):
        return x + self.net(self.norm(x))


class Model(nn.Module):
    def __init__(self, vocabulary=256, width=16, layers=3):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(layers))
        self.head = nn.Linear(width, vocabulary)

    def forward(self, idx, targets=None):
        x = self.embed(idx)
        for block in self.blocks:
            x = block(x)
        logits = self.head(x)
        return logits, F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))


def get_batch():
    starts = torch.randint(len(data) - block_size - 1, (batch_size,))
    x = torch.stack([torch.from_numpy(data[i : i + block_size].astype(np.int64)) for i in starts])
    y = torch.stack([torch.from_numpy(data[i + 1 : i + 1 + block_size].astype(np.int64)) for i in starts])
    return x, y


@torch.no_grad()
def estimate_loss():
    model.eval()
    losses = torch.tensor([model(*get_batch())[1].item() for _ in range(5)])
    model.train()
    return losses.mean()


model = Model()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
x, y = get_batch()
iter_num = 0
while iter_num < max_iters:
    if iter_num % eval_interval == 0:
        print("evaluated", estimate_loss().item())
    for _ in range(gradient_accumulation_steps):
        logits, loss = model(x, y)
        x, y = get_batch()
        (loss / gradient_accumulation_steps).backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    print("loss", loss.item().hex())
    iter_num += 1
