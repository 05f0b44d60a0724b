from __future__ import annotations

import torch

from autotune.doctor.findings import Gives
from tests.doctor.looking import Clean, context_of, fault, found_by, work


class Moves(Clean):
    def forward(self, x):
        scale = torch.linspace(0, 1, 3)  # fault
        scale = torch.cat([scale.unsqueeze(0) + 1])
        return super().forward(x) * scale.to(x.device)


class InPlace(Clean):
    def forward(self, x):
        return super().forward(x) * torch.linspace(0, 1, 3, device=x.device) + torch.zeros(3).to(torch.float64)


def test_a_tensor_that_is_made_and_moved_is_found():
    (finding,) = found_by("host_tensors", context_of(work(Moves)))
    assert finding.where == (fault(),)
    assert finding.gives in (Gives.ACCELERATOR, Gives.SPEED)
    assert "torch.linspace()" in finding.seen


def test_made_on_the_device_or_changed_in_type_is_none():
    assert found_by("host_tensors", context_of(work(InPlace))) == []
