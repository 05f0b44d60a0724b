"""nn.DataParallel. Technique 32."""

from __future__ import annotations

from collections.abc import Iterator

from torch import nn

from autotune.doctor.context import Context
from autotune.doctor.findings import Finding, Gives
from autotune.doctor.lines import calls_to, find_nodes


def check(context: Context) -> Iterator[Finding]:
    inside = [name for name, module in context.training.model.named_modules() if isinstance(module, nn.DataParallel)]
    if not inside and "DataParallel" not in context.unwrapped:
        return
    lines = tuple(str(line) for line in find_nodes(calls_to("DataParallel")))
    yield Finding(
        check="data_parallel",
        gives=Gives.ACCELERATOR,
        seen="the model is spread over devices by nn.DataParallel",
        where=lines or tuple(context.place(name) for name in inside),
        remedy=(
            "torch.nn.parallel.DistributedDataParallel(model), one process a device, started by torchrun;",
            "on one device: the plain model",
        ),
        why="it copies the whole model to every device in each step, from one process that Python's lock holds back",
    )
