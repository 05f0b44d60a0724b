from __future__ import annotations

import pytest
import torch
from torch import nn

from autotune.doctor.kinds import ELEMENTWISE, GROUPED, kind_of, profile_kinds
from tests.doctor.looking import Clean, CleanImages, context_of, fault, found_by, images, work


class Depthwise(nn.Module):
    def __init__(self):
        super().__init__()
        self.widen = nn.Conv2d(3, 64, 1)
        self.depthwise = nn.Conv2d(64, 64, 3, padding=1, groups=64)  # depthwise
        self.mix = nn.Conv2d(64, 64, 1)
        self.classify = nn.Linear(64, 3)

    def forward(self, x):
        return self.classify(self.mix(self.depthwise(self.widen(x))).mean((2, 3)))


class Pointwise(Clean):
    def forward(self, x):
        wide = x.repeat(1, 8000)
        wide = wide.exp().sin().cos().tanh().sigmoid()  # pointwise
        return super().forward(x + wide[:, :16])


def test_depthwise_convolutions_that_cost_more_than_their_arithmetic_are_found():
    context = context_of(work(Depthwise, images), ceilings={"kinds": {GROUPED: 0.6, "convolution": 0.3}})
    (finding,) = found_by("operation_kinds", context)
    assert finding.where == (f"depthwise ({fault('depthwise')})",)
    assert finding.gain.share == pytest.approx(0.3)


def test_element_wise_work_on_large_tensors_is_found():
    (finding,) = found_by("operation_kinds", context_of(work(Pointwise), ceilings={"kinds": {ELEMENTWISE: 0.9}}))
    assert finding.where[0] == fault("pointwise")
    assert finding.gain.share > 0.2


@pytest.mark.parametrize("model", [Depthwise, CleanImages])
def test_small_shares_are_none(model):
    kinds = {"convolution": 0.6, GROUPED: 0.1, ELEMENTWISE: 0.2, "copy": 0.1}
    assert found_by("operation_kinds", context_of(work(model, images), ceilings={"kinds": kinds})) == []


def test_operators_have_the_kind_that_people_mean():
    weight, channels = [8, 1, 3, 3], [2, 8, 5, 5]
    assert kind_of("aten::mkldnn_convolution", [channels, weight]) == GROUPED
    assert kind_of("aten::convolution_backward", [channels, channels, weight]) == GROUPED
    assert kind_of("aten::convolution_backward", [channels, channels, [8, 8, 3, 3]]) == "convolution"
    names = (
        "addmm bmm native_batch_norm native_layer_norm_backward copy_ mul threshold_backward max_pool2d_with_indices"
    )
    expected = ["matmul", "matmul", "normalisation", "normalisation", "copy", ELEMENTWISE, ELEMENTWISE, "pooling"]
    assert [kind_of(f"aten::{name}") for name in names.split()] == expected


def test_the_optimizers_own_operations_are_its_kind():
    context = context_of(work(Clean, optimizer=torch.optim.Adam))
    shares = profile_kinds(context.session, context.cached).shares
    assert {"optimizer", "matmul"} <= set(shares)
    assert sum(shares.values()) == pytest.approx(1.0)
