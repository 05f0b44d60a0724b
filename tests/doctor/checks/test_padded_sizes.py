from __future__ import annotations

import itertools

from torch import nn

from autotune.doctor.findings import Gives
from tests.doctor.looking import context_of, fault, found_by, work


class Odd(nn.Module):
    def __init__(self, size=129):
        super().__init__()
        self.up = nn.Linear(16, size)  # fault
        self.down = nn.Linear(size, 3)

    def forward(self, x):
        return self.down(self.up(x).relu())


def context_with(monkeypatch, times, model=Odd, **config):
    """Return a context in which the layer's product and the padded one take these times, again and again."""
    context = context_of(work(model), ceilings={"step_s": 1e-3, "compute_s": 1e-3}, **config)
    turns = itertools.cycle(times)
    monkeypatch.setattr(context, "seconds_of", lambda work: (work(), next(turns))[1])
    return context


def test_odd_sizes_under_half_precision_are_found_with_the_padded_size(monkeypatch):
    context = context_with(monkeypatch, (3e-4, 1e-4), precision="bf16")
    (finding,) = found_by("padded_sizes", context)
    assert f"up ({fault()}): out_features 129, padded 136" in finding.where
    assert any("in_features 129, padded 136" in place for place in finding.where)
    assert finding.gives is Gives.SPEED
    assert finding.gain.share > 0.5


def test_sizes_that_cost_nothing_here_are_an_accelerators(monkeypatch):
    (finding,) = found_by("padded_sizes", context_with(monkeypatch, (1e-4,), precision="bf16"))
    assert finding.gives is Gives.ACCELERATOR
    assert finding.gain.share == 0.0


def test_in_fp32_or_with_even_sizes_there_is_none(monkeypatch):
    assert found_by("padded_sizes", context_with(monkeypatch, (3e-4, 1e-4))) == []
    even = context_with(monkeypatch, (3e-4, 1e-4), lambda: Odd(128), precision="bf16")
    assert found_by("padded_sizes", even) == []
