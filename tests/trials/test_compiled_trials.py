"""Trials of compiled configs in processes of their own: what cannot be compiled is unsupported, not an error."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from autotune.compiling import why_no_compiler
from autotune.records import Outcome
from autotune.trials.runner import ForkServerRunner
from tests.trials.trial_scripts import make_spec

COMPILED = {"batch_size": 8, "compile_mode": "default"}

NET = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.head = nn.Linear(4, 4), nn.Linear(4, 3)
    def forward(self, x):
        return self.head(torch.nn.functional.gelu(self.inner(x)))

def build_model():
    return Net()
"""


def test_c20_a_step_that_never_calls_the_model_compiles_nothing_and_is_unsupported(trial):
    ran = trial(
        NET + "def step(model, batch):\n    return cross_entropy(model.head(model.inner(batch[0])), batch[1])\n",
        config=COMPILED,
    )
    assert ran.record.outcome is Outcome.UNSUPPORTED
    assert "found nothing to compile" in ran.record.failure.reason


def test_c68_what_the_compiler_refuses_is_unsupported_with_its_reason(trial):
    ran = trial(
        NET + 'import torch._inductor.config\ntorch._inductor.config.cpp.cxx = (None, "no-such-compiler")\n',
        config=COMPILED,
    )
    assert ran.record.outcome is Outcome.UNSUPPORTED, ran.record.failure
    assert ran.record.failure.reason == "torch.compile failed"
    assert "no-such-compiler" in ran.record.failure.message


def test_trials_have_a_compile_cache_of_their_own_that_ends_with_the_runner(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "mine"))
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "mine"))
    body = """
        names = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")
        (HERE / "cache").write_text(" ".join(os.environ.get(name, "") for name in names))
        raise ValueError("that is all")
    """
    runner = ForkServerRunner(tmp_path / "server.log")
    runner.run(make_spec(tmp_path, body), tmp_path / "log")
    cache, *triton = (tmp_path / "cache").read_text().split()
    assert Path(cache).is_dir()
    assert cache != str(tmp_path / "mine")
    assert not triton
    runner.close()
    assert not Path(cache).exists()


def test_a_runner_that_starts_no_server_leaves_no_folder(tmp_path, monkeypatch):
    """Whoever is killed before that cannot remove it, and nobody else would."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    ForkServerRunner(tmp_path / "server.log")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_c19_d2_a_compiled_trial_says_what_compiling_took(trial):
    """The second one finds the graphs in the search's cache."""
    if (lacks := why_no_compiler("cpu")) is not None:
        pytest.skip(lacks)
    limits = {"timeout_s": 170.0, "budget_s": 1.0}
    first, second = (
        trial(NET, config=COMPILED, limits=limits, dataset_length=4096, planned_samples=10**6).record for _ in range(2)
    )
    for record in (first, second):
        assert record.outcome is Outcome.OK, record.failure
        assert record.measurement.compilation.graphs >= 1
        assert record.measurement.start_s >= record.measurement.compilation.seconds
    assert not first.measurement.compilation.cached
    assert second.measurement.compilation.cached
    assert second.measurement.compilation.seconds < first.measurement.compilation.seconds / 1.5
