from __future__ import annotations

import pytest
from torch import nn

from autotune.doctor.findings import Basis, Gives
from tests.doctor.looking import CleanImages, context_of, fault, found_by, images, work


class Biased(CleanImages):
    def __init__(self):
        super().__init__()
        self.convolve = nn.Conv2d(3, 16, 1)  # fault


class Between(Biased):
    def forward(self, x):
        return self.classify(self.norm(self.convolve(x).relu_()).mean((2, 3)))


class Evaluating(Biased):
    def train(self, mode=True):
        super().train(mode)
        self.norm.eval()
        return self


def test_a_bias_that_batchnorm_takes_away_is_found():
    context = context_of(work(Biased, lambda: images(side=32)), saved=0.08)
    (finding,) = found_by("bias_before_norm", context)
    assert finding.where == (f"convolve ({fault()})",)
    assert finding.remedy == ("Conv2d(..., bias=False)",)
    assert finding.gives is Gives.SPEED
    assert finding.gain.share == pytest.approx(0.08)
    assert context.training.model.convolve.bias is not None


def test_where_it_cannot_be_tried_the_sum_over_the_gradient_bounds_it():
    context = context_of(work(Biased, lambda: images(side=64)), ceilings={"step_s": 1e-3, "compute_s": 1e-3})
    (finding,) = found_by("bias_before_norm", context)
    assert finding.gain.basis is Basis.BOUND
    assert finding.gain.share > 0


@pytest.mark.parametrize("model", [Between, Evaluating, CleanImages])
def test_a_bias_that_counts_is_none(model):
    assert found_by("bias_before_norm", context_of(work(model, images), saved=0.08)) == []
