from __future__ import annotations

import gzip
import zipfile

import numpy as np
import torch
from torch.utils.data import Dataset

from tests.doctor.looking import fault, found_by
from tests.doctor.reads import reading_of

VALUES = np.random.default_rng(0).integers(0, 4, 100_000).astype(np.float32)


def packed(folder, method):
    path = folder / f"data-{method}.zip"
    with zipfile.ZipFile(path, "w", method) as archive:
        for number in range(16):
            archive.writestr(f"{number}.bin", VALUES.tobytes())
    return path


class Members(Dataset):
    def __init__(self, path):
        self.archive = zipfile.ZipFile(path)

    def __len__(self):
        return 16

    def __getitem__(self, index):
        data = self.archive.read(f"{index}.bin")  # fault
        return torch.frombuffer(bytearray(data), dtype=torch.float32)[:16]


class Reopened(Members):
    def __init__(self, path):
        self.path = path

    def __getitem__(self, index):
        with zipfile.ZipFile(self.path) as archive:  # opened again
            return torch.tensor(archive.getinfo("0.bin").file_size)


class Gzipped(Members):
    def __init__(self, path):
        self.file = gzip.open(path)  # noqa: SIM115 -- open as long as the dataset

    def __getitem__(self, index):
        self.file.seek(400_000 * index)  # from the begin
        return torch.frombuffer(bytearray(self.file.read(64)), dtype=torch.float32)


def test_compressed_members_are_found(tmp_path):
    path = packed(tmp_path, zipfile.ZIP_DEFLATED)
    (finding,) = found_by("compressed_archives", reading_of(lambda: Members(path)))
    assert finding.where == (fault(),)
    assert finding.seen.startswith("decompressing zip data")
    assert finding.gain.share > 0.3


def test_stored_members_are_none(tmp_path):
    path = packed(tmp_path, zipfile.ZIP_STORED)
    assert found_by("compressed_archives", reading_of(lambda: Members(path))) == []


def test_an_archive_opened_for_every_sample_is_found(tmp_path):
    path = packed(tmp_path, zipfile.ZIP_STORED)
    (finding,) = found_by("compressed_archives", reading_of(lambda: Reopened(path)))
    assert finding.where == (fault("opened again"),)
    assert "again and again" in finding.seen


def test_seeking_in_gzip_is_found(tmp_path):
    path = tmp_path / "data.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        for _ in range(16):
            file.write(VALUES.tobytes())
    (finding,) = found_by("compressed_archives", reading_of(lambda: Gzipped(path)))
    assert finding.where[0] == fault("from the begin")
