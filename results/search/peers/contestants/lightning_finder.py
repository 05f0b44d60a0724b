"""Lightning's batch size finder with default options: doubles from 2 until the memory or the dataset ends."""

from __future__ import annotations

import tempfile
from typing import Any

from task import Final, Task


def tune(task: Task) -> Final:
    import lightning
    from lightning.pytorch.tuner import Tuner
    from torch.utils.data import DataLoader

    workload = task.module().workload

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net, self.batch_size, self.ran = workload.model(), 2, 0

        def training_step(self, batch: Any, index: int) -> Any:
            inputs, target = batch
            if self.ran and len(target) > self.ran:  # the earlier size was finished
                task.so_far(_final(self.ran))
            self.ran = max(self.ran, len(target))
            return workload.loss(self.net(inputs), target)

        def configure_optimizers(self) -> Any:
            return workload.optimizer(self.parameters())

        def train_dataloader(self) -> Any:
            workers = task.baseline.get("num_workers", 0)
            return DataLoader(workload.dataset(), batch_size=self.batch_size, shuffle=True, num_workers=workers)

    with tempfile.TemporaryDirectory() as scratch:
        trainer = lightning.Trainer(
            default_root_dir=scratch, max_epochs=1, logger=False, enable_progress_bar=False, accelerator="auto"
        )
        found = Tuner(trainer).scale_batch_size(Module())
    return _final(int(found or task.baseline["batch_size"]))


def _final(size: int) -> Final:
    return Final(config={"batch_size": size}, own_claim=f"batch {size} fits; it measures no speed")
