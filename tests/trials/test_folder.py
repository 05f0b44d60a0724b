"""Writing into a run folder, and elsewhere: whole or not at all."""

from __future__ import annotations

import pytest

from autotune.errors import RunFolderError
from autotune.trials.folder import write_atomically


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A working folder with a folder and a file in it."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("mine")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("place", "why"),
    [
        (".", "Is a directory"),
        ("..", "Is a directory"),
        ("/", "Is a directory"),
        ("folder", "Is a directory"),
        ("no/such/file", "No such file or directory"),
        ("file/below", "Not a directory"),
        ("x" * 300, "File name too long"),
    ],
    ids=lambda value: value[:12],
)
def test_a_place_that_takes_no_file_is_one_clear_message(place, why, here):
    with pytest.raises(RunFolderError) as raised:
        write_atomically(type(here)(place), "text")
    assert raised.value.message == f"cannot write {place}: {why}"
    assert sorted(path.name for path in here.iterdir()) == ["file", "folder"]
    assert not list((here / "folder").iterdir())


def test_a_file_is_replaced_whole(here):
    write_atomically(here / "file", "theirs")
    assert (here / "file").read_text() == "theirs"
    assert sorted(path.name for path in here.iterdir()) == ["file", "folder"]
