"""The user's training with a config applied: its step is that of the user's own loop."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

from autotune.config import Config
from autotune.errors import WorkloadError
from autotune.measure.training import Training
from autotune.workload import Workload


def workload(**changes: Any) -> Workload:
    return Workload(
        model=lambda: nn.Linear(4, 3),
        dataset=lambda: TensorDataset(100 * torch.randn(32, 4), torch.randint(0, 3, (32,))),
        loss=nn.CrossEntropyLoss(),
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.1),
        **changes,
    )


@pytest.mark.parametrize("clip_norm", [None, 0.5])
def test_gradients_are_clipped_where_the_users_loop_clips_them(clip_norm: float | None) -> None:
    training = Training(workload(clip_norm=clip_norm), Config(batch_size=8), device="cpu")
    norms = []
    (optimizer,) = training.optimizers
    optimizer.register_step_pre_hook(
        lambda *_: norms.append(torch.cat([item.grad.flatten() for item in training.model.parameters()]).norm().item())
    )
    batch = next(iter(training.loader))
    training.step(batch)
    assert (norms[0] <= 0.501) == (clip_norm is not None)


@pytest.mark.parametrize("clip_norm", [0.0, -1.0])
def test_a_norm_that_leaves_no_gradient_is_refused(clip_norm: float) -> None:
    with pytest.raises(WorkloadError, match="clip_norm"):
        workload(clip_norm=clip_norm)
