"""Run folders for the tests of the reports."""

from __future__ import annotations

import pytest

from autotune.documents import to_json
from autotune.records import Outcome
from autotune.report.run import read_run
from autotune.trials.folder import RunFolder
from tests.report.factory import GIB, failed, make_info, ok


def write_run(path, records, **info):
    """Write records and run.json to a run folder; return the run as the reports read it."""
    folder = RunFolder(path)
    folder.create()
    folder.run.write_text(to_json(make_info(**info)), encoding="utf-8")
    for record in records:
        folder.write_record(record)
    return read_run(folder)


@pytest.fixture
def save(tmp_path):
    """Write a run as `write_run` does, to a folder of the test's own."""
    return lambda records, **info: write_run(tmp_path / "run", records, **info)


@pytest.fixture
def mixed():
    return mixed_records()


def mixed_records():
    """Return the records of a search in which all sorts of things happened."""
    return [
        ok(0, kind="baseline", sample_s=0.00100),
        ok(1, kind="replicate", sample_s=0.00104),
        ok(2, {"precision": "bf16"}, sample_s=0.0007, flags=("cpu_contended", "noisy"), uncertainty=0.12),
        ok(3, {"batch_size": 128, "precision": "bf16", "num_workers": 4}, sample_s=0.00052, compute_s=0.04),
        ok(4, {"batch_size": 4096}, sample_s=0.0004, host=9 * GIB),
        failed(5, {"batch_size": 8192}, message="[red]tried[/red] to allocate 20 GiB"),
        failed(6, {"num_workers": 2}, Outcome.ERROR, "ValueError", message="bad [/] index [0]", phase="warm-up"),
        ok(7, {"num_workers": 8}, outcome=Outcome.PRUNED, sample_s=0.0021, flags=("pruned",)),
        ok(8, {"precision": "bf16"}, kind="verification", sample_s=0.0001),
    ]
