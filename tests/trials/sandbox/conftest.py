"""A runner for each way of the sandbox, and a project folder with files that must stay as they are."""

from __future__ import annotations

import hashlib
import sqlite3
from textwrap import dedent

import pytest

from autotune.trials.runner import ForkServerRunner
from autotune.trials.sandbox import GUARDS, OVERLAY, WAY_VARIABLE, Sandbox, overlay, way_here
from tests.workload.conftest import runner  # noqa: F401
from tests.workload.real_trials import Real


@pytest.fixture(scope="session", params=[OVERLAY, GUARDS])
def way(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("try")
    (folder / "try").mkdir()
    if request.param == OVERLAY and not overlay.possible(folder / "try", ()):
        pytest.skip("this system permits no overlay mounts")
    assert way_here(Sandbox(scratch=folder, kept=())) in (OVERLAY, GUARDS)
    return request.param


@pytest.fixture(scope="session")
def sandboxed(way, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        patch.setenv(WAY_VARIABLE, way)
        runner = ForkServerRunner(tmp_path_factory.mktemp("server") / "server.log", sandbox=True)
        yield runner
        runner.close()


@pytest.fixture
def project(tmp_path):
    """A folder as a user has it."""
    folder = tmp_path / "project"
    for name in ("old", "data"):
        (folder / name).mkdir(parents=True)
    for name in ("model.pth", "notes.txt", "keep.txt", "target.txt", "old/a.txt", "data/train.csv"):
        (folder / name).write_text(name)
    (folder / "latest.txt").symlink_to("target.txt")
    with sqlite3.connect(folder / "figures.db") as database:
        database.execute("create table t (a)")
    return folder


@pytest.fixture
def write(project):
    def write_script(text, name="train.py"):
        (project / name).write_text(dedent(text))
        return project / name

    return write_script


@pytest.fixture
def real(sandboxed, tmp_path):
    records = tmp_path / "records"
    records.mkdir()
    return Real(sandboxed, records)


@pytest.fixture
def unchanged(project):
    """Return what is in the project's folder, to compare before and after."""

    def look():
        return {
            str(path.relative_to(project)): hashlib.sha256(path.read_bytes()).hexdigest()
            if path.is_file()
            else "folder"
            for path in project.rglob("*")
        }

    return look
