"""accelerate's find_executable_batch_size with default options: from 128 down until a training step fits."""

from __future__ import annotations

from typing import Any

from task import Final, Task

STEPS = 3  # as many as Lightning's finder trains at each size


def tune(task: Task) -> Final:
    from accelerate import Accelerator
    from accelerate.utils import find_executable_batch_size
    from torch.utils.data import DataLoader

    workload = task.module().workload
    accelerator = Accelerator()

    @find_executable_batch_size  # type: ignore[untyped-decorator]
    def train(batch_size: int) -> int:
        accelerator.free_memory()
        workers = task.baseline.get("num_workers", 0)
        loader: Any = DataLoader(workload.dataset(), batch_size=batch_size, shuffle=True, num_workers=workers)
        model = workload.model()
        model, optimizer, loader = accelerator.prepare(model, workload.optimizer(model.parameters()), loader)
        for step, (inputs, target) in enumerate(loader):
            accelerator.backward(workload.loss(model(inputs), target))
            optimizer.step()
            optimizer.zero_grad()
            if step + 1 == STEPS:
                break
        return batch_size

    size = train()
    return Final(config={"batch_size": size}, own_claim=f"batch {size} fits; it measures no speed")
