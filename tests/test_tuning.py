"""`autotune.tune` and what it returns."""

from __future__ import annotations

import io
import os

import pytest
import torch
from rich.console import Console
from torch import nn
from torch.utils.data import TensorDataset

import autotune
from autotune.errors import UsageError, WorkloadError
from autotune.trials.runner import IN_TRIAL
from autotune.tuning import result_of
from tests.report.conftest import mixed, save  # noqa: F401
from tests.report.factory import failed
from tests.report.html.conftest import BEST, SAME_BATCH, verified  # noqa: F401


def workload():
    data = TensorDataset(torch.randn(64, 4), torch.randint(0, 3, (64,)))
    return autotune.Workload(
        model=lambda: nn.Linear(4, 3), dataset=lambda: data, loss=nn.CrossEntropyLoss(), baseline={"batch_size": 8}
    )


def test_a_search_from_python(tmp_path):
    result = autotune.tune(
        workload(), out=tmp_path / "run", verify="none", trials=2, trial_budget_s=1.0, max_batch=16, target=0.2
    )
    assert result.best is not None
    autotune.Tuned(result.best)
    assert len(result.trials) >= 2  # a disturbed one is repeated
    assert result.trials[0]["option.batch_size"] == 8
    assert result.verdict == ""
    assert result.report.exists()


def test_the_result_says_what_was_found(verified):  # noqa: F811
    result = result_of(verified.folder)
    assert (result.best, result.same_batch) == (BEST, SAME_BATCH)
    assert "faster per sample than your baseline" in result.verdict
    assert {row["trial"] for row in result.trials} == {0, 1, 2, 3, 4, 5, 6, 7}
    assert all(isinstance(row["outcome"], str) for row in result.trials)


def test_it_shows_itself(verified):  # noqa: F811
    result = result_of(verified.folder)
    assert str(result).startswith(result.verdict[:40])
    console = Console(file=io.StringIO(), width=100)
    console.print(result)
    assert "precision" in console.file.getvalue()
    shown = result._repr_html_()
    assert f"Best config: {result.verdict}" in shown
    assert "<script" not in shown


def test_nothing_found(save):  # noqa: F811
    result = result_of(save([failed(0), failed(1, {"batch_size": 8})]).folder)
    assert result.best is None
    assert "No config was measured within the limits" in str(result)
    assert "No config was measured within the limits" in result._repr_html_()


def test_not_inside_a_trial(monkeypatch):
    monkeypatch.setitem(os.environ, IN_TRIAL, "1")
    with pytest.raises(WorkloadError, match="inside a trial"):
        autotune.tune(workload())


def test_unknown_wishes_are_named():
    with pytest.raises(UsageError, match="trails"):
        autotune.tune(workload(), trails=3)
