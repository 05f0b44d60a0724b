from __future__ import annotations

import torch

from autotune.doctor.findings import Gives
from tests.doctor.looking import Clean, context_of, fault, found_by, work


class Loops(Clean):
    def forward(self, x):
        rows = []
        for row in x:
            for _ in range(24):
                row = row.tanh() + row.sin()  # fault
            rows.append(row)
        return super().forward(torch.stack(rows))


def test_a_loop_of_tiny_operations_is_found():
    (finding,) = found_by("small_operations", context_of(work(Loops)))
    assert finding.where[0] == fault()
    assert finding.gives is Gives.SPEED
    assert finding.gain.share > 0.15
    assert "sin 192x" in finding.seen


class Gathers(Clean):
    def forward(self, x):
        total = 0
        for row in x:
            total = total + super().forward(row.tanh()).sum()  # gathers
        return super().forward(x) + total


def test_a_sum_in_a_loop_is_no_recurrence():
    (finding,) = found_by("small_operations", context_of(work(Gathers), batch_size=24))
    assert fault("gathers") in finding.where


class Recurrent(Clean):
    def forward(self, x):
        state = x
        for _ in range(64):
            state = (state + x).tanh()
        return super().forward(state)


def test_a_recurrence_cannot_be_batched():
    assert found_by("small_operations", context_of(work(Recurrent))) == []


def test_a_few_operations_are_none():
    assert found_by("small_operations", context_of(work(Clean))) == []
