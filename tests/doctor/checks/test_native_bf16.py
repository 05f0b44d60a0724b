from __future__ import annotations

import pytest
import torch
from torch.nn.functional import cross_entropy

from autotune.doctor.findings import Gives
from tests.doctor.looking import Clean, context_of, fault, found_by, work
from tests.measure.measuring import QuickDevice


def casts(model, batch):
    with torch.autocast("cpu", torch.bfloat16):  # fault
        return cross_entropy(model(batch[0]), batch[1])


@pytest.fixture
def emulated(monkeypatch):
    monkeypatch.setattr(QuickDevice, "native_bf16", lambda self: False)


def test_emulated_bf16_that_costs_time_is_found(emulated):
    (finding,) = found_by("native_bf16", context_of(work(Clean, training_step=casts), saved=0.3))
    assert fault() in finding.where
    assert finding.gives is Gives.SPEED
    assert finding.gain.share == pytest.approx(0.3)


def test_native_bf16_or_fp32_is_none(monkeypatch, emulated):
    assert found_by("native_bf16", context_of(work(Clean), saved=0.3)) == []
    monkeypatch.setattr(QuickDevice, "native_bf16", lambda self: True)
    assert found_by("native_bf16", context_of(work(Clean, training_step=casts), saved=0.3)) == []
