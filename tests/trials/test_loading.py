"""Trials under the loader's options, in processes of their own."""

from __future__ import annotations

import dataclasses
import tempfile

import pytest

from autotune.documents import from_plain
from autotune.facts import Facts
from autotune.records import Outcome
from autotune.trials.runner import ForkServerRunner
from tests.trials.trial_scripts import trial_with

SAYS_WHO = """
    import multiprocessing
    class Where(Numbers):
        def load(self, index):
            (HERE / f"{multiprocessing.get_start_method(allow_none=True)}-{os.getpid()}").touch()
            (HERE / "module").write_text(__name__)
    def build_dataset():
        return Where(64)
"""


@pytest.mark.parametrize("method", ["fork", "forkserver", pytest.param("spawn", marks=pytest.mark.slow)])
def test_c15_workers_are_started_as_the_config_says_and_find_the_script(method, trial, tmp_path):
    """A worker that is not forked imports the script by its name, from its folder."""
    config = {"batch_size": 8, "num_workers": 1, "persistent_workers": True, "multiprocessing_context": method}
    ran = trial(SAYS_WHO, config=config, dataset_length=64, limits={"timeout_s": 150.0})
    assert ran.record.outcome is Outcome.OK, ran.record.failure
    readers = [path.name for path in tmp_path.glob("*-*") if path.name.startswith(("fork", "spawn", "None"))]
    # a forked worker has the start method of its parent, which nobody set; another one has that of its own start
    assert {name.partition("-")[0] for name in readers} <= {method, "None"}, readers
    assert method == "fork" or any(name.startswith(method) for name in readers)
    assert (tmp_path / "module").read_text() == "script"
    assert "Warning" not in ran.printed


@pytest.mark.parametrize(
    ("body", "fork_only"),
    [
        ("", None),
        ("    def build_dataset():\n        return [(torch.zeros(4), 0)] * 64\n", None),
        (
            "    def build_dataset():\n        data = Numbers(64)\n        data.load = lambda index: None\n"
            "        return data\n",
            "cannot be sent to loader processes",
        ),
    ],
    ids=["a class of the script", "a list", "a lambda in it"],
)
def test_c15_a_dataset_that_cannot_be_sent_allows_fork_alone(body, fork_only, trial):
    facts = probe(trial, body)
    assert facts.workers_refused is None
    assert (facts.fork_only is None) if fork_only is None else (fork_only in facts.fork_only)
    assert facts.start_method in ("fork", "forkserver", "spawn")


def test_workers_send_their_batches_where_the_temporary_folder_has_a_long_name(tmp_path, monkeypatch):
    """A socket's name has room for 107 bytes."""
    folder = tmp_path / ("long" * 20)
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    runner = ForkServerRunner(tmp_path / "server.log")
    try:
        config = {"batch_size": 8, "num_workers": 1}
        ran = trial_with(runner, tmp_path)(config=config, limits={"timeout_s": 60.0})
    finally:
        runner.close()
    assert ran.record.outcome is Outcome.OK, ran.record.failure
    assert "path too long" not in ran.printed


def test_c44_threads_that_a_fork_would_lose_are_seen(trial):
    body = """
    def build_dataset():
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
        return Numbers()
    """
    assert probe(trial, body).threads == 1
    assert probe(trial, "").threads == 0


def test_c5_a_dataset_that_holds_tensors_elsewhere_has_no_workers(trial):
    body = """
    class Held(Numbers):
        def __init__(self):
            super().__init__()
            self.table = {"device": [torch.zeros(1, device="meta")]}
    def build_dataset():
        return Held()
    """
    assert "tensors on the accelerator" in probe(trial, body).workers_refused


def probe(trial, body) -> Facts:
    record = trial(body, kind="probe", config={}, baseline={"batch_size": 8}).record
    assert record.facts is not None, record.failure
    return from_plain(Facts, record.facts)


SLOW = """
    class Slow(Numbers):
        def load(self, index):
            time.sleep(0.01)
    def build_dataset():
        return Slow(LENGTH)
"""


@pytest.mark.parametrize("workers", [0, 1])
def test_kept_samples_are_measured_as_in_every_epoch_but_the_first(workers, trial):
    """Reading 8 samples takes 80 ms; kept ones come back in under one."""
    config = {"batch_size": 8, "num_workers": workers, "cache_dataset": True}
    record = trial(SLOW.replace("LENGTH", "128"), config=config, dataset_length=128).record
    assert record.outcome is Outcome.OK, record.failure
    found = record.measurement
    assert found.wait_s < 0.04
    assert found.cache_fill_s >= 128 * 0.01 / max(1, workers)
    assert record.phases.cache_s >= 128 * 0.01
    assert 128 * 30 < found.cache_bytes < 128 * 1000
    assert "cache_filled_in_part" not in found.flags


def test_a_dataset_too_large_to_be_read_is_kept_in_part_and_reckoned_whole(trial, monkeypatch):
    config = {"batch_size": 8, "cache_dataset": True}
    body = SLOW.replace("LENGTH", "100_000") + "    import autotune.measure.filling as f; f.FILL_S = 0.3\n"
    record = trial(body, config=config, dataset_length=100_000).record
    assert record.outcome is Outcome.OK, record.failure
    found = record.measurement
    assert "cache_filled_in_part" in found.flags
    assert found.steps_per_epoch == 12_500
    assert found.wait_s < 0.04
    assert found.cache_fill_s >= 1000
    assert found.cache_bytes > 100_000 * 30
    assert found.lifetime.host > found.cache_bytes
    assert record.phases.cache_s < 30


def test_the_last_batch_that_is_left_out_is_in_no_epoch(trial):
    record = trial("", config={"batch_size": 8, "drop_last": True}, dataset_length=4097).record
    assert record.outcome is Outcome.OK, record.failure
    assert dataclasses.asdict(record.measurement)["samples_per_step"] == 8
