"""Cases in trials of small scripts, each in a process of its own."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import autotune
from autotune.records import Outcome
from autotune.workload.script import QUIET
from tests.trials.trial_scripts import Trial, session_of, wait_until

MIB = 1 << 20
TWO_WORKERS = {"batch_size": 8, "num_workers": 2}


def test_a2_words_of_failure_in_the_output_of_a_good_trial(trial: Trial) -> None:
    ran = trial("""
import warnings
def before_step():
    print("RuntimeError: CUDA out of memory. Traceback (most recent call last):", file=sys.stderr)
    warnings.warn("this will raise an error in future: killed by signal 9", stacklevel=1)
""")
    assert ran.record.outcome is Outcome.OK
    assert "CUDA out of memory" in ran.printed


def test_a5_the_peak_of_a_trial_is_its_own(trial: Trial) -> None:
    body = "kept = np.ones({size} << 20, dtype=np.uint8)\n"
    large, small = (trial(body.format(size=size)).record.measurement for size in (600, 1))
    assert large is not None
    assert small is not None
    for kind in ("lifetime", "steady"):
        assert getattr(large, kind).host - getattr(small, kind).host > 500 * MIB


@pytest.mark.parametrize("place", ["update", "forward"])
def test_a6_memory_that_runs_out_in_the_update_or_after_it(trial: Trial, place: str) -> None:
    """The optimizer's state comes in its first step, which may be one too many, or leave too little for the second."""
    record = trial(f"""
made = 0
def no_more():
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 9.00 GiB.")
class Greedy(torch.optim.SGD):
    def step(self, closure=None):
        global made
        made += 1
        if "{place}" == "update":
            no_more()
        return super().step(closure)
def before_step():
    if made == 1 and "{place}" == "forward":
        no_more()
def build_optimizer(parameters):
    return Greedy(parameters, lr=0.01)
""").record
    assert record.failure is not None
    assert (record.outcome, record.failure.reason) == (Outcome.OUT_OF_MEMORY, "out of device memory")


def test_a9_c11_a_larger_batch_that_comes_late_is_in_the_peak(trial: Trial) -> None:
    """One batch of the epoch has far longer samples than the first ones: its memory counts, and is warned about."""
    measured = trial(
        """
class Ragged(Numbers):
    def __getitem__(self, index):
        return torch.ones(1), index
def build_dataset():
    return Ragged(64)
seen = 0
def collate(items):
    global seen
    seen += 1
    length = 40_000_000 if seen == 50 else 4
    return torch.ones(length), len(items)
def step(model, batch):
    return model(batch[0][:4]).sum() * 1e-3 + batch[0].sum() * 0
drop_last = True; from functools import partial; Workload = partial(Workload, collate_fn=collate)
""",
        config={"batch_size": 8},
        dataset_length=64,
    ).record
    assert measured.measurement is not None, measured.failure
    assert measured.measurement.lifetime.host > trial().record.measurement.lifetime.host + 120 * MIB


def test_c09_workers_pay_where_samples_take_time(trial: Trial) -> None:
    """Ten milliseconds of waiting a sample: two workers wait twice as fast."""
    body = """
class Slow(Numbers):
    def load(self, index):
        time.sleep(0.01)
def build_dataset():
    return Slow()
"""
    alone, beside = (trial(body, config=config).record.measurement for config in ({"batch_size": 8}, TWO_WORKERS))
    assert alone is not None
    assert beside is not None
    assert alone.sample_s > 1.4 * beside.sample_s


def test_c5_a_script_that_uses_the_accelerator_on_import_is_seen(trial: Trial) -> None:
    facts = trial("torch.cuda.is_initialized = lambda: True\n", kind="probe", config={}, baseline={"batch_size": 8})
    assert facts.record.facts is not None, facts.record.failure
    assert "when it is imported" in facts.record.facts["fork_only"]


def test_c64_a_trainable_head_alone_is_trained(trial: Trial) -> None:
    """The usual way to fine-tune; the optimizer gets all parameters, frozen ones among them."""
    record = trial("""
def build_model():
    body = nn.Linear(4, 8).requires_grad_(False)
    return nn.Sequential(body, nn.ReLU(), nn.Linear(8, 3))
""").record
    assert record.outcome is Outcome.OK
    assert record.gradient_names == ("2.bias", "2.weight")


def test_c70_no_default_device_is_ever_set() -> None:
    """It would move the generators that shuffle, and every tensor that the script makes."""
    for file in Path(autotune.__file__).parent.rglob("*.py"):
        names = {node.attr for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Attribute)}
        assert "set_default_device" not in names, file


def test_c71_tokenizers_are_told_that_processes_fork(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    assert QUIET["TOKENIZERS_PARALLELISM"] == "false"
    ran = trial("print('told', os.environ['TOKENIZERS_PARALLELISM'])\n", kind="probe", baseline={"batch_size": 8})
    assert f"told {os.environ.get('TOKENIZERS_PARALLELISM', 'false')}" in ran.printed


def test_plots_open_no_window(trial: Trial) -> None:
    """On a desktop, plt.show() waits until someone closes it."""
    assert QUIET["MPLBACKEND"] == "Agg"
    ran = trial("print('plots', os.environ['MPLBACKEND'])\n", kind="probe", baseline={"batch_size": 8})
    assert f"plots {os.environ.get('MPLBACKEND', 'Agg')}" in ran.printed


def test_c83_autocast_for_cuda_on_a_cpu_trains_and_says_nothing_on_the_screen(
    trial: Trial, capfd: pytest.CaptureFixture[str]
) -> None:
    ran = trial("""
def step(model, batch):
    with torch.autocast("cuda"):
        return cross_entropy(model(batch[0]), batch[1])
""")
    assert ran.record.outcome is Outcome.OK
    assert capfd.readouterr() == ("", "")


def test_c85_the_shuffle_of_very_many_samples_is_in_no_step(trial: Trial) -> None:
    """Three million numbers are drawn and listed before the first batch."""
    found = trial("def build_dataset():\n    return Numbers(3_000_000)\n", dataset_length=3_000_000).record
    assert found.measurement is not None, found.failure
    assert found.phases.first_batch_s > 5 * found.measurement.step_s


def test_i1_a_stranger_of_the_same_name_lives_on(trial: Trial, tmp_path: Path) -> None:
    """Same script, same words on its command line, another session: only the trial's own group is ended."""
    words = [
        sys.executable,
        "-c",
        "import time; time.sleep(600)",
        "autotune.trials.server",
        str(tmp_path / "script.py"),
    ]
    with subprocess.Popen(words, start_new_session=True) as stranger:
        try:
            ran = trial("def before_step():\n    time.sleep(100)\n", config=TWO_WORKERS, limits={"timeout_s": 2.0})
            assert ran.record.outcome is Outcome.TIMEOUT
            assert wait_until(lambda: not session_of(ran.pid), 5.0)
            assert stranger.poll() is None
        finally:
            stranger.send_signal(signal.SIGKILL)
