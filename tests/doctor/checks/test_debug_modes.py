from __future__ import annotations

import warnings

import pytest
import torch
from torch.nn.functional import cross_entropy

from autotune.doctor.findings import Basis, Gives
from tests.doctor.looking import Clean, context_of, fault, found_by, work


def looks_for_nan(model, batch):
    with torch.autograd.detect_anomaly(check_nan=False):  # anomaly
        return cross_entropy(model(batch[0]), batch[1])


@pytest.fixture
def deterministic():
    torch.use_deterministic_algorithms(True)  # deterministic
    yield
    torch.use_deterministic_algorithms(False)


def test_anomaly_detection_in_the_step_is_found_and_its_cost_measured():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch says by itself that it is slow
        (finding,) = found_by("debug_modes", context_of(work(Clean, training_step=looks_for_nan), saved=0.4))
    assert fault("anomaly") in finding.where
    assert finding.gives is Gives.SPEED
    assert finding.gain.share == pytest.approx(0.4)
    assert finding.gain.basis is Basis.MEASURED
    assert not torch.is_anomaly_enabled()


def test_deterministic_algorithms_are_found(deterministic):
    (finding,) = found_by("debug_modes", context_of(work(Clean), saved=0.2))
    assert fault("deterministic") in finding.where
    assert torch.are_deterministic_algorithms_enabled()


def test_what_costs_nothing_is_none(deterministic):
    assert found_by("debug_modes", context_of(work(Clean), saved=0.0)) == []


def test_with_all_of_them_off_there_is_none():
    context = context_of(work(Clean), saved=0.4)
    assert found_by("debug_modes", context) == []
    assert context.tried == 0
