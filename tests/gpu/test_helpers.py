"""What the tests on a card are made of, on the CPU: the trace is read right, the workload trains, faults are faults."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from autotune.config import Config
from tests.gpu.steps import Span, assert_updates_as_asked, names, spans, traced

TRACE = """{"traceEvents": [
 {"ph": "X", "cat": "kernel", "name": "gemm", "ts": 10, "dur": 5, "args": {"stream": 7}},
 {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD (Pinned -> Device)", "ts": 12, "dur": 9, "args": {"stream": 20}},
 {"ph": "i", "name": "mark", "ts": 1}
]}"""


def test_a_trace_is_read(tmp_path: Path):
    path = tmp_path / "trace.json"
    path.write_text(TRACE)
    kernel, copy = spans(path)
    assert kernel == Span("gemm", "kernel", 10, 15, 7)
    assert copy.stream == 20
    assert kernel.overlaps(copy)
    assert not kernel.overlaps(Span("later", "kernel", 15, 16, 7))
    assert names([kernel, copy], "kernel") == {"gemm"}


@pytest.mark.parametrize("implementation", ["fused", "foreach"])
def test_the_trace_of_a_few_steps_shows_the_optimizers_operator(tmp_path: Path, implementation):
    seen = traced(tmp_path, Config(batch_size=8, optimizer_impl=implementation), device="cpu", side=8)
    assert_updates_as_asked(seen, implementation)


def test_the_workload_of_the_trials_trains(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["train.py"])
    monkeypatch.delitem(sys.modules, "tests.gpu.train", raising=False)
    from tests.gpu import train

    batch = next(iter(train.workload.dataset().tensors[0].split(4))), train.workload.dataset().tensors[1][:4]
    loss = train.workload.training_step(train.workload.model(), batch)
    loss.backward()
    assert loss.isfinite()
    monkeypatch.setattr(train, "FAULT", "tensor too large")
    with pytest.raises(RuntimeError, match=r"can't allocate|out of memory|Invalid"):
        train.workload.training_step(train.workload.model(), batch)
