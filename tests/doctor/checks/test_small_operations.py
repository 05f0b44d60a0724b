from __future__ import annotations

import torch

from autotune.doctor.findings import Gives
from tests.doctor.looking import Clean, context_of, fault, found_by, work


class Loops(Clean):
    def forward(self, x):
        rows = []
        for row in x:
            for _ in range(8):
                row = row.tanh() + row.sin()  # fault
            rows.append(row)
        return super().forward(torch.stack(rows))


def test_a_loop_of_tiny_operations_is_found_with_most_of_the_step_to_gain():
    (finding,) = found_by("small_operations", context_of(work(Loops)))
    assert finding.where[0] == fault()
    assert finding.gives is Gives.SPEED
    assert finding.gain.share > 0.4
    assert "sin 64x" in finding.seen


def test_a_few_operations_are_none():
    assert found_by("small_operations", context_of(work(Clean))) == []
