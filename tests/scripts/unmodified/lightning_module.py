"""A LightningModule and a Trainer: the loop is the library's."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

try:
    import lightning.pytorch as pl
except ImportError:
    import pytorch_lightning as pl


class Classifier(pl.LightningModule):
    def __init__(self, width=16):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, width), nn.ReLU(), nn.Linear(width, 3))

    def training_step(self, batch, batch_index):
        x, y = batch
        loss = nn.functional.cross_entropy(self.layers(x), y)
        print("loss", loss.item().hex())
        return loss

    def validation_step(self, batch, batch_index):
        x, y = batch
        self.log("val_acc", (self.layers(x).argmax(1) == y).float().mean())

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def main():
    pl.seed_everything(0)
    train = TensorDataset(torch.randn(160, 8), torch.randint(0, 3, (160,)))
    val = TensorDataset(torch.randn(32, 8), torch.randint(0, 3, (32,)))
    trainer = pl.Trainer(max_epochs=3, accelerator="cpu", logger=False, enable_progress_bar=False)
    trainer.fit(Classifier(), DataLoader(train, batch_size=16, shuffle=True), DataLoader(val, batch_size=16))
    print("end reached")


if __name__ == "__main__":
    main()
