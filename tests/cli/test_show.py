"""`autotune show`: a trial, and its config as a file."""

from __future__ import annotations

import pytest

from autotune.config import read_document
from tests.report.conftest import mixed_records, write_run


@pytest.fixture
def folder(tmp_path):
    return write_run(tmp_path / "results" / "train", mixed_records()).folder


def test_a_trial_is_shown(run, folder):
    ended = run("show", "results/train", 3)
    assert ended.status == 0, ended.err
    assert "trial 3: ok" in ended.out


def test_its_config_is_written_once(run, folder, tmp_path):
    ended = run("show", "results/train", 3, "--out", "mine.toml")
    assert ended.status == 0, ended.err
    assert "mine.toml written: the config of trial 3, not verified" in ended.out
    assert "autotune verify mine.toml" in ended.out
    options = read_document(tmp_path / "mine.toml")["options"]
    assert options == {"batch_size": 128, "precision": "bf16", "num_workers": 4}
    again = run("show", "results/train", 2, "--out", "mine.toml")
    again.check_clear()
    assert (again.status, again.message.split("\n")[0]) == (2, "mine.toml exists")
    assert read_document(tmp_path / "mine.toml")["options"] == options
    assert run("show", "results/train", 2, "--out", "mine.toml", "--force").status == 0
    assert read_document(tmp_path / "mine.toml")["options"] == {"batch_size": 64, "precision": "bf16"}


@pytest.mark.parametrize(
    ("trial", "place", "message"), [(99, "mine.toml", "has no trial 99"), (3, ".", "cannot write .: Is a directory")]
)
def test_no_trial_and_no_place_are_one_clear_message(trial, place, message, run, folder, tmp_path):
    ended = run("show", "results/train", trial, "--out", place)
    ended.check_clear()
    assert ended.status == 2
    assert message in ended.message
    assert [path.name for path in tmp_path.iterdir()] == ["results"]
