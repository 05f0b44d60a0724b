"""Which folder a process enters, and what names mean there, where a trial's writes are copies beside the originals."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from autotune.trials.sandbox.redirect import Redirect


@pytest.fixture
def copies(tmp_path):
    return tmp_path / "scratch/files"


@pytest.fixture
def redirect(copies):
    return Redirect(copies, ())


@pytest.fixture
def enter(redirect, monkeypatch):
    return lambda path: monkeypatch.chdir(redirect.entering(path))


def put(redirect, path, text="of the trial"):
    Path(redirect.writing(path, fresh=True)).write_text(text)


def make(redirect, path):
    os.mkdir(redirect.writing(path, fresh=True))


def test_a_folder_that_was_there_is_entered_itself_whatever_was_written_below_it(redirect, enter, project):
    put(redirect, project / "data/own.csv")
    for path in (project, project / "data"):
        enter(path)
        assert Path.cwd() == path
    assert sorted(redirect.names(".")) == ["own.csv", "train.csv"]
    assert Path(redirect.reading("train.csv")).read_text() == "data/train.csv"
    assert Path(redirect.reading("own.csv")).read_text() == "of the trial"


def test_from_a_folder_of_the_trials_own_names_lead_to_what_was_there(redirect, enter, project, copies):
    make(redirect, project / "runs")
    enter(project / "runs")
    assert Path.cwd() == Path(f"{copies}{project}/runs")
    put(redirect, "log.txt")
    assert redirect.names(".") == ["log.txt"]
    assert Path(redirect.reading("../data/train.csv")).read_text() == "data/train.csv"
    put(redirect, "../data/own.csv")
    assert not (project / "data/own.csv").exists()
    enter("..")
    assert Path.cwd() == project
    enter(f"{copies}{project}/runs/..")
    assert Path.cwd() == project


def test_a_folder_that_was_replaced_is_the_trials_own(redirect, enter, project, copies):
    redirect.remove(project / "old/a.txt")
    redirect.remove(project / "old", folder=True)
    with pytest.raises(FileNotFoundError):
        enter(project / "old")
    make(redirect, project / "old")
    enter(project / "old")
    assert Path.cwd() == Path(f"{copies}{project}/old")
    assert redirect.names(".") == []


def test_a_link_to_a_folder_leads_to_the_folder_that_was_there(redirect, enter, project):
    (project / "link").symlink_to("data")
    put(redirect, project / "data/own.csv")
    enter(project / "link")
    assert Path.cwd() == project / "data"
