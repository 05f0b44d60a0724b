"""Images of different sizes with boxes: lists of tensors and of dicts; the model returns a dict of losses."""

import torch
from torch import nn
from torch.utils.data import Dataset

import autotune


class Boxes(Dataset):
    def __len__(self):
        return 80

    def __getitem__(self, index):
        count = 1 + index % 3
        image = torch.randn(3, 12 + index % 4, 12)
        return image, {"boxes": torch.rand(count, 4), "labels": torch.ones(count, dtype=torch.long), "name": f"{index}"}


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Conv2d(3, 6, 3)
        self.boxes = nn.Linear(6, 4)
        self.kinds = nn.Linear(6, 2)

    def forward(self, images, targets):
        features = torch.stack([self.body(image).mean(dim=(1, 2)) for image in images])
        first = torch.stack([target["boxes"][0] for target in targets])
        labels = torch.stack([target["labels"][0] for target in targets])
        return {
            "loss_boxes": nn.functional.l1_loss(self.boxes(features), first),
            "loss_kinds": nn.functional.cross_entropy(self.kinds(features), labels),
        }


def collate(samples):
    return [list(part) for part in zip(*samples, strict=True)]


workload = autotune.Workload(model=Detector, dataset=Boxes, collate_fn=collate, baseline={"batch_size": 8})
