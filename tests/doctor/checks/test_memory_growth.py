from __future__ import annotations

from torch.nn.functional import cross_entropy

from autotune.doctor.findings import Gives
from tests.doctor.looking import Clean, context_of, fault, found_by, work

kept_losses = []
kept_numbers = []


def keeps(model, batch):
    loss = cross_entropy(model(batch[0]), batch[1])
    kept_losses.append(loss)  # global
    return loss


def keeps_numbers(model, batch):
    loss = cross_entropy(model(batch[0]), batch[1])
    kept_numbers.append(loss.item())
    return loss


class Sums(Clean):
    def __init__(self):
        super().__init__()
        self.running_sum_of_outputs = 0

    def forward(self, x):
        out = super().forward(x)
        self.running_sum_of_outputs = self.running_sum_of_outputs + out.mean()  # attribute
        return out


def test_a_list_of_losses_is_found():
    try:
        (finding,) = found_by("memory_growth", context_of(work(Clean, training_step=keeps)))
    finally:
        kept_losses.clear()
    assert finding.where == (fault("global"),)
    assert finding.gives is Gives.RESULT
    assert "kept_losses" in finding.why


def test_a_running_sum_is_found():
    (finding,) = found_by("memory_growth", context_of(work(Sums)))
    assert finding.where == (fault("attribute"),)
    assert "Sums.running_sum_of_outputs" in finding.why


def test_numbers_are_none():
    assert found_by("memory_growth", context_of(work(Clean, training_step=keeps_numbers))) == []
