"""A small GPT: batches come out of a memmap by get_batch(), everything stands at the top level."""

import math
import os

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

batch_size = 8
block_size = 16
n_layer, n_embd, vocab_size = 2, 16, 32
max_iters, eval_interval = 30, 10
learning_rate, warmup_iters = 1e-3, 5
out_dir = "out-char"

data_file = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tokens.bin")
data = np.memmap(data_file, dtype=np.uint8, mode="r")
torch.manual_seed(1337)


def get_batch():
    ix = torch.randint(len(data) - block_size, (batch_size,))
    x = torch.stack([torch.from_numpy(data[i : i + block_size].astype(np.int64)) for i in ix])
    y = torch.stack([torch.from_numpy(data[i + 1 : i + 1 + block_size].astype(np.int64)) for i in ix])
    return x % vocab_size, y % vocab_size


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(n_embd), nn.LayerNorm(n_embd)
        self.qkv, self.proj = nn.Linear(n_embd, 3 * n_embd), nn.Linear(n_embd, n_embd)
        self.mlp = nn.Sequential(nn.Linear(n_embd, 4 * n_embd), nn.GELU(), nn.Linear(4 * n_embd, n_embd))

    def forward(self, x):
        q, k, v = self.qkv(self.ln_1(x)).chunk(3, dim=-1)
        x = x + self.proj(F.scaled_dot_product_attention(q, k, v, is_causal=True))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab_size, n_embd), nn.Embedding(block_size, n_embd)
        self.h = nn.ModuleList([Block() for _ in range(n_layer)])
        self.head = nn.Linear(n_embd, vocab_size, bias=False)

    def forward(self, idx, targets=None):
        x = self.wte(idx) + self.wpe(torch.arange(idx.size(1)))
        for block in self.h:
            x = block(x)
        logits = self.head(x)
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.view(-1, vocab_size), targets.view(-1))


@torch.no_grad()
def estimate_loss():
    model.eval()
    found = torch.stack([model(*get_batch())[1] for _ in range(2)]).mean()
    model.train()
    return found.item()


def get_lr(it):
    if it < warmup_iters:
        return learning_rate * (it + 1) / warmup_iters
    return learning_rate * 0.5 * (1 + math.cos(math.pi * it / max_iters))


os.makedirs(out_dir, exist_ok=True)
model = GPT()
optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, betas=(0.9, 0.95))
X, Y = get_batch()
iter_num = 0
while True:
    for group in optimizer.param_groups:
        group["lr"] = get_lr(iter_num)
    if iter_num and iter_num % eval_interval == 0:
        print(f"step {iter_num}: {estimate_loss():.4f}")
        torch.save({"model": model.state_dict(), "iter": iter_num}, os.path.join(out_dir, "ckpt.pt"))
    logits, loss = model(X, Y)
    X, Y = get_batch()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    print("loss", loss.item().hex())
    iter_num += 1
    if iter_num > max_iters:
        break
print("end reached")
