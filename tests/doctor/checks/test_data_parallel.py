from __future__ import annotations

from torch import nn

from autotune.doctor.examine import _unwrapping
from autotune.doctor.findings import Gives
from tests.doctor.looking import Clean, context_of, fault, found_by, work


class Spread(Clean):
    def __init__(self):
        super().__init__()
        self.layers = nn.DataParallel(self.layers)  # fault


def test_data_parallel_is_found():
    (finding,) = found_by("data_parallel", context_of(work(Spread)))
    assert fault() in finding.where
    assert finding.gives is Gives.ACCELERATOR
    assert "DistributedDataParallel" in finding.remedy[0]


def test_a_plain_model_is_none():
    assert found_by("data_parallel", context_of(work(Clean))) == []


def test_a_whole_model_that_is_spread_is_looked_at_without_its_wrapper():
    """A measurement on one device refuses it; the doctor says what to do instead."""
    workload = work(lambda: nn.DataParallel(Clean()))
    build = workload.model
    with _unwrapping(workload) as unwrapped:
        context = context_of(workload)
    context.unwrapped = tuple(unwrapped)
    (finding,) = found_by("data_parallel", context)
    assert "spread over devices" in finding.seen
    assert workload.model is build
