"""A classifier as in tutorials: argparse in main(), train() and test(), an optional file at the end."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3)
        self.drop = nn.Dropout(0.25)
        self.fc = nn.Linear(4 * 6 * 6, 10)

    def forward(self, x):
        x = F.relu(self.conv(x))
        return F.log_softmax(self.fc(torch.flatten(self.drop(x), 1)), dim=1)


def train(args, model, device, train_loader, optimizer):
    model.train()
    for data, target in train_loader:
        data, target = data.to(device), target.to(device)
        optimizer.zero_grad()
        loss = F.nll_loss(model(data), target)
        loss.backward()
        optimizer.step()
        print("loss", loss.item().hex())


def test(model, device, test_loader):
    model.eval()
    correct = 0
    with torch.no_grad():
        for data, target in test_loader:
            output = model(data.to(device))
            correct += output.argmax(dim=1).eq(target.to(device)).sum().item()
    print("correct", correct)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--samples", type=int, default=168)
    parser.add_argument("--save-model", default="")
    args = parser.parse_args()
    torch.manual_seed(1)
    device = torch.device("cpu")
    images, labels = torch.randn(args.samples, 1, 8, 8), torch.randint(0, 10, (args.samples,))
    train_loader = DataLoader(TensorDataset(images, labels), batch_size=args.batch_size, shuffle=True)
    test_loader = DataLoader(TensorDataset(images[:32], labels[:32]), batch_size=32)
    model = Net().to(device)
    optimizer = optim.Adadelta(model.parameters(), lr=0.5)
    scheduler = StepLR(optimizer, step_size=1, gamma=0.7)
    for _ in range(args.epochs):
        train(args, model, device, train_loader, optimizer)
        test(model, device, test_loader)
        scheduler.step()
    if args.save_model:
        torch.save(model.state_dict(), args.save_model)


if __name__ == "__main__":
    main()
