from __future__ import annotations

import torch
from torch.utils.data import Dataset

from autotune.doctor.checks import cold_reads
from tests.doctor.looking import fault, found_by
from tests.doctor.reads import reading_of


class Files(Dataset):
    def __init__(self, folder):
        self.paths = [folder / f"{number}.bin" for number in range(8)]
        for path in self.paths:
            path.write_bytes(b"x" * 20_000)

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        self.paths[index].read_bytes()  # fault
        return torch.zeros(16), 0


def test_slow_storage_matters_where_memory_cannot_hold_the_data(tmp_path, monkeypatch):
    times = iter([0.0, 0.001, 0.5])
    monkeypatch.setattr(cold_reads, "read_seconds", lambda paths: next(times))
    monkeypatch.setattr(cold_reads, "available_bytes", lambda: 1000)
    (finding,) = found_by("cold_reads", reading_of(lambda: Files(tmp_path)))
    assert finding.where == (fault(),)
    assert "62 ms to read from storage" in finding.seen
    assert finding.gain.share > 0.5


def test_data_that_fit_are_cold_only_once(tmp_path, monkeypatch):
    monkeypatch.setattr(cold_reads, "forget", None)  # nothing is dropped
    assert found_by("cold_reads", reading_of(lambda: Files(tmp_path))) == []


def test_files_are_read_and_dropped_from_the_cache(tmp_path):
    paths = [str(path) for path in Files(tmp_path).paths]
    assert cold_reads.read_seconds(paths) > 0
    cold_reads.forget(paths[0])
    assert cold_reads.read_seconds(paths[:1]) > 0
