from __future__ import annotations

import time

import torch
from torch.utils.data import Dataset

from tests.doctor.looking import fault, found_by, vectors
from tests.doctor.reads import COMPUTING, reading_of


class Same(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        time.sleep(0.003)  # whole
        return torch.full((16,), float(index)), index % 3


class Augmented(Same):
    def __getitem__(self, index):
        return self.load(index) + torch.rand(16), 0

    def load(self, index):  # part
        time.sleep(0.003)
        return torch.full((16,), float(index))


class Random(Same):
    def __getitem__(self, index):
        time.sleep(0.003)
        return torch.rand(16), 0


def test_samples_that_never_change_are_found():
    (finding,) = found_by("repeated_preprocessing", reading_of(Same))
    assert fault("whole") in finding.where
    assert finding.gain.share > 0.6
    assert "cache_dataset" in finding.remedy[0]


def test_a_part_that_never_changes_is_found():
    (finding,) = found_by("repeated_preprocessing", reading_of(Augmented))
    assert finding.where == (fault("part"),)
    assert "load()" in finding.seen


def test_random_samples_or_cheap_ones_are_none():
    assert found_by("repeated_preprocessing", reading_of(Random)) == []
    assert found_by("repeated_preprocessing", reading_of(vectors)) == []
    assert found_by("repeated_preprocessing", reading_of(Same, ceilings=COMPUTING)) == []
