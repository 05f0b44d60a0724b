from __future__ import annotations

from torch import nn

from autotune.doctor.findings import Gives, Sureness
from tests.doctor.looking import Clean, context_of, fault, found_by, work


class Spare(Clean):
    def __init__(self):
        super().__init__()
        self.spare = nn.Linear(100, 100)  # fault


class Cut(Clean):
    def __init__(self):
        super().__init__()
        self.side = nn.Linear(3, 3)  # cut

    def forward(self, x):
        out = super().forward(x)
        self.side(out).sum()
        return out


def test_a_module_that_is_never_called_is_found():
    (finding,) = found_by("unused_parameters", context_of(work(Spare)))
    assert finding.where == (f"spare ({fault()})",)
    assert finding.gives is Gives.RESULT
    assert finding.gain.saved_bytes == 10_100 * 4
    assert finding.sure is Sureness.CERTAIN


def test_a_result_that_the_loss_does_not_use_is_found():
    (finding,) = found_by("unused_parameters", context_of(work(Cut)))
    assert finding.where == (f"side ({fault('cut')})",)
    assert "the loss does not depend on them" in finding.seen


def test_used_parameters_are_none():
    assert found_by("unused_parameters", context_of(work(Clean))) == []
