"""An image classifier with meters, DataParallel where there are devices for it, a schedule, and checkpoints."""

import argparse
import os
import shutil
import time

import torch
from torch import nn
from torch.optim.lr_scheduler import MultiStepLR
from torch.utils.data import DataLoader, TensorDataset

best_acc1 = 0.0


class AverageMeter:
    def __init__(self, name):
        self.name, self.val, self.sum, self.count = name, 0.0, 0.0, 0

    def update(self, val, n=1):
        self.val, self.sum, self.count = val, self.sum + val * n, self.count + n

    def __str__(self):
        return f"{self.name} {self.val:.3f} ({self.sum / max(1, self.count):.3f})"


def block(inputs, outputs):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)
    )


def make_model(classes):
    return nn.Sequential(block(3, 8), block(8, 8), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, classes))


def images(count, seed):
    maker = torch.Generator().manual_seed(seed)
    return TensorDataset(torch.randn(count, 3, 12, 12, generator=maker), torch.randint(0, 4, (count,), generator=maker))


def accuracy(output, target):
    return (output.argmax(1) == target).float().mean().item() * 100


def train(loader, model, criterion, optimizer, epoch, args):
    batch_time, data_time, losses = AverageMeter("Time"), AverageMeter("Data"), AverageMeter("Loss")
    model.train()
    end = time.time()
    for i, (image, target) in enumerate(loader):
        data_time.update(time.time() - end)
        output = model(image)
        loss = criterion(output, target)
        losses.update(loss.item(), image.size(0))
        print("loss", loss.item().hex())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        batch_time.update(time.time() - end)
        end = time.time()
        if i % args.print_freq == 0:
            print(f"Epoch: [{epoch}][{i}/{len(loader)}]", batch_time, data_time, losses, sep="\t")


def validate(loader, model):
    top1 = AverageMeter("Acc@1")
    model.eval()
    with torch.no_grad():
        for image, target in loader:
            top1.update(accuracy(model(image), target), image.size(0))
    return top1.sum / top1.count


def save_checkpoint(state, is_best, filename="checkpoint.pth.tar"):
    torch.save(state, filename)
    if is_best:
        shutil.copyfile(filename, "model_best.pth.tar")


def main():
    global best_acc1
    parser = argparse.ArgumentParser()
    parser.add_argument("-j", "--workers", default=0, type=int)
    parser.add_argument("-b", "--batch-size", default=16, type=int)
    parser.add_argument("--epochs", default=2, type=int)
    parser.add_argument("--print-freq", default=5, type=int)
    parser.add_argument("--resume", default="", type=str)
    args = parser.parse_args()
    torch.manual_seed(3)
    model = make_model(4)
    if torch.cuda.device_count() > 1:
        model = nn.DataParallel(model).cuda()
    if args.resume and os.path.isfile(args.resume):
        model.load_state_dict(torch.load(args.resume)["state_dict"])
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9, weight_decay=1e-4)
    scheduler = MultiStepLR(optimizer, [1])
    train_loader = DataLoader(
        images(160, 0), batch_size=args.batch_size, shuffle=True, num_workers=args.workers, pin_memory=False
    )
    val_loader = DataLoader(images(48, 1), batch_size=args.batch_size, shuffle=False, num_workers=args.workers)
    for epoch in range(args.epochs):
        train(train_loader, model, criterion, optimizer, epoch, args)
        acc1 = validate(val_loader, model)
        scheduler.step()
        is_best, best_acc1 = acc1 > best_acc1, max(acc1, best_acc1)
        save_checkpoint({"epoch": epoch + 1, "state_dict": model.state_dict(), "best_acc1": best_acc1}, is_best)
    print("end reached")


if __name__ == "__main__":
    main()
