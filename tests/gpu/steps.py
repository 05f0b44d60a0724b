"""What the tests of options share: a few steps under a config, and all that torch's profiler saw of them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.profiler import profile
from torch.utils.data import DataLoader, TensorDataset

from autotune.config import Config
from autotune.device import device_named
from autotune.tuned import Tuned

STEPS = 4


@dataclass(frozen=True)
class Span:
    """One entry of the trace; times are microseconds."""

    name: str
    kind: str
    """"kernel", "gpu_memcpy", "cuda_runtime", "cpu_op" """
    begin: float
    end: float
    stream: int | None

    def overlaps(self, other: Span) -> bool:
        return self.begin < other.end and other.begin < self.end


class Net(nn.Module):
    """A convolution, matrix products, and enough of both to be seen."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(3, width, 3, padding=1)
        self.mix = nn.Linear(width, 4 * width)
        self.head = nn.Linear(4 * width, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.head(torch.relu(self.mix(torch.relu(self.convolution(images)).mean((2, 3)))))


def traced(
    folder: Path, config: Config, device: str = "cuda:0", side: int = 32, warm: int = 3, ready: bool = False
) -> list[Span]:
    """Train some steps under a config; return what the profiler saw of the last ones.

    Args:
        warm: steps before those.
        ready: the batches lie in pinned memory already, so that no loading holds the steps up.
    """
    batch_size, steps = int(config.value("batch_size")), warm + STEPS
    images, labels = torch.randn(steps * batch_size, 3, side, side), torch.zeros(steps * batch_size).long()
    seam = device_named(device)
    with Tuned(config, device=device) as tuned:
        model = tuned.model(Net())
        optimizer = tuned.optimizer(torch.optim.AdamW, model.parameters(), lr=1e-3)
        loader = tuned.loader(TensorDataset(images, labels))
        if ready:
            parts = zip(images.split(batch_size), labels.split(batch_size), strict=True)
            loader = tuned.batches([(part.pin_memory(), of.pin_memory()) for part, of in parts])
        profiler: Any = None
        for index, (images, labels) in enumerate(loader):
            if index == warm:
                seam.synchronize()
                profiler = profile(activities=seam.profiled_activities())
                profiler.__enter__()
            with tuned.autocast():
                loss = cross_entropy(model(images), labels)
            tuned.backward(loss)
            tuned.step(optimizer)
        seam.synchronize()
        profiler.__exit__(None, None, None)
    path = folder / "trace.json"
    profiler.export_chrome_trace(str(path))
    seen = spans(path)
    if seam.is_accelerator and not names(seen, "kernel"):
        pytest.skip("the profiler may not see kernels on this machine")
    return seen


def spans(path: Path) -> list[Span]:
    """Read a chrome trace."""
    events = json.loads(path.read_text())["traceEvents"]
    return [
        Span(
            item["name"], item.get("cat", ""), item["ts"], item["ts"] + item.get("dur", 0),
            item.get("args", {}).get("stream"),
        )
        for item in events
        if item.get("ph") == "X"
    ]  # fmt: skip


def names(seen: list[Span], kind: str = "") -> set[str]:
    return {span.name for span in seen if not kind or span.kind == kind}


def assert_updates_as_asked(seen: list[Span], implementation: str) -> None:
    """The optimizer ran as fused or foreach; a fused one counts its steps by foreach, and updates nothing else so."""
    operators = names(seen)
    assert any("_fused_adamw" in name for name in operators) == (implementation == "fused")
    assert any("_foreach_sqrt" in name for name in operators) == (implementation == "foreach")


def host_batch(config: Config, device: str = "cuda:0") -> torch.Tensor:
    """Return the images of one batch as the loader yields them, before they go to the device."""
    data = TensorDataset(torch.randn(32, 3, 8, 8))
    with Tuned(config, device=device) as tuned:
        loader = tuned.loader(data)
        assert isinstance(loader.host, DataLoader)
        return next(iter(loader.host))[0]
