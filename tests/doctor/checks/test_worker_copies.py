from __future__ import annotations

import numpy as np
import torch
from torch.utils.data import Dataset

from autotune.doctor.checks import worker_copies
from autotune.doctor.findings import Gives
from tests.doctor.looking import fault, found_by, vectors
from tests.doctor.reads import reading_of

COUNT = 300_000


class Names(Dataset):
    def __init__(self):
        self.names = [f"folder/of/many/images/{number:08d}.jpg" for number in range(COUNT)]  # fault

    def __len__(self):
        return COUNT

    def __getitem__(self, index):
        return torch.tensor(len(self.names[index]))


class Packed(Names):
    def __init__(self):
        self.names = np.array([f"{number:08d}.jpg" for number in range(COUNT)])


def test_a_list_of_strings_is_found():
    (finding,) = found_by("worker_copies", reading_of(Names, num_workers=2))
    assert finding.where == (fault(),)
    assert finding.gives is Gives.MEMORY
    assert "Names.names is 300000 Python objects" in finding.seen
    assert 32 << 20 <= finding.gain.saved_bytes <= 100 << 20


def test_arrays_tensors_and_loaders_without_workers_are_none():
    assert found_by("worker_copies", reading_of(Packed, num_workers=2)) == []
    assert found_by("worker_copies", reading_of(vectors, num_workers=2)) == []
    assert found_by("worker_copies", reading_of(Names)) == []


def test_small_numbers_are_one_object_for_all():
    class Labels(Names):
        def __init__(self):
            self.labels = [number % 10 for number in range(COUNT)]

    assert list(worker_copies.containers(Labels())) == []
