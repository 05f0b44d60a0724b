"""Looks at its loss in every step, keeps a running mean and writes a history file."""

import csv

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

torch.manual_seed(0)
dataset = TensorDataset(torch.randn(200, 6), torch.randn(200, 1))
train_set, val_set = random_split(dataset, [160, 40])
model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
train_loader = DataLoader(train_set, batch_size=10, shuffle=True)
val_loader = DataLoader(val_set, batch_size=20)
history = []
for epoch in range(3):
    running = 0.0
    model.train()
    for x, y in train_loader:
        optimizer.zero_grad()
        loss = ((model(x) - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        running += loss.item()
        print("loss", loss.item().hex())
    model.eval()
    with torch.no_grad():
        val = sum(((model(x) - y) ** 2).mean().item() for x, y in val_loader) / len(val_loader)
    history.append((epoch, running / len(train_loader), val))
with open("history.csv", "w", newline="") as file:
    csv.writer(file).writerows(history)
print("end reached")
