from __future__ import annotations

import pytest
from torch import nn

from autotune.doctor.checks import padded_sizes
from tests.doctor.looking import context_of, fault, found_by, work


class Odd(nn.Module):
    def __init__(self, size=129):
        super().__init__()
        self.up = nn.Linear(16, size)  # fault
        self.down = nn.Linear(size, 3)

    def forward(self, x):
        return self.down(self.up(x).relu())


@pytest.fixture
def quicker(monkeypatch):
    """Let every second product, the padded one, take a third of the time."""
    times = iter([3e-4, 1e-4] * 20)
    monkeypatch.setattr(padded_sizes, "typical", lambda work, wait: (work(), next(times))[1])


def test_odd_sizes_under_half_precision_are_found_with_the_padded_size(quicker):
    context = context_of(work(Odd), precision="bf16", ceilings={"step_s": 1e-3, "compute_s": 1e-3})
    (finding,) = found_by("padded_sizes", context)
    assert f"up ({fault()}): out_features 129, padded 136" in finding.where
    assert any("in_features 129, padded 136" in place for place in finding.where)
    assert finding.gain.share > 0.5


def test_in_fp32_or_with_even_sizes_there_is_none(quicker):
    assert found_by("padded_sizes", context_of(work(Odd))) == []
    assert found_by("padded_sizes", context_of(work(lambda: Odd(128)), precision="bf16")) == []


def test_sizes_that_cost_nothing_here_are_none(monkeypatch):
    monkeypatch.setattr(padded_sizes, "typical", lambda work, wait: 1e-4)
    assert found_by("padded_sizes", context_of(work(Odd), precision="bf16")) == []
