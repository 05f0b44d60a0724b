from __future__ import annotations

import time

import torch
from torch.utils.data import Dataset

from autotune.doctor.checks import many_files
from tests.doctor.looking import fault, found_by, vectors
from tests.doctor.reads import reading_of


class Parts(Dataset):
    """A sample in many files."""

    def __init__(self, folder, parts=24):
        self.paths = [folder / f"{number}.bin" for number in range(parts)]
        for path in self.paths:
            path.write_bytes(b"x" * 64)

    def __len__(self):
        return 32

    def __getitem__(self, index):
        for path in self.paths:
            with open(path, "rb") as file:  # fault
                file.read()
        return torch.zeros(16), 0


class Slow(Parts):
    def __getitem__(self, index):
        time.sleep(0.02)
        return super().__getitem__(index)


def test_opens_are_counted_and_named(tmp_path):
    (finding,) = found_by("many_files", reading_of(lambda: Parts(tmp_path)))
    assert finding.where == (fault(),)
    assert "24 files" in finding.seen
    assert finding.gain.share > 0.05


def test_few_files_beside_other_work_are_none(tmp_path):
    assert found_by("many_files", reading_of(lambda: Slow(tmp_path, parts=1))) == []


def test_one_file_that_is_opened_again_and_again_is_none(tmp_path):
    assert found_by("many_files", reading_of(lambda: Parts(tmp_path, parts=2))) == []


def test_no_files_are_none():
    assert found_by("many_files", reading_of(vectors)) == []


def test_packing_saves_the_opening(tmp_path):
    paths = [str(path) for path in Parts(tmp_path).paths]
    assert many_files.saved_by_packing(paths) > 0
    assert many_files.existing([*paths, str(tmp_path / "missing")]) == paths
