"""No main guard; gradients of four batches in an update, with autocast and a gradient scaler of its own."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
accumulate = 4
dataset = TensorDataset(torch.randn(256, 8), torch.randn(256, 1))
loader = DataLoader(dataset, 8, True)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
criterion = nn.MSELoss()
for epoch in range(3):
    for step, (inputs, target) in enumerate(loader):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = criterion(model(inputs), target) / accumulate
        scaler.scale(loss).backward()
        print("loss", loss.item().hex())
        if (step + 1) % accumulate == 0:
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad(set_to_none=True)
