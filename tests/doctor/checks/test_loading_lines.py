from __future__ import annotations

import time

import torch
from torch.utils.data import Dataset

from autotune.doctor.findings import Basis, Gives
from tests.doctor.looking import fault, found_by, vectors
from tests.doctor.reads import COMPUTING, reading_of


class Slow(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        text = self.read(index)
        return self.embed(text), index % 3

    def read(self, index):
        time.sleep(0.0005)
        return str(index)

    def embed(self, text):
        time.sleep(0.005)  # fault
        return torch.full((16,), float(len(text)))


class Loops(Slow):
    def embed(self, text):
        total = 0.0
        for _ in range(5):
            time.sleep(0.0005)
            time.sleep(0.0015)  # hottest of the loop
            total += 1
        return torch.full((16,), total)


def test_the_slowest_line_is_named():
    (finding,) = found_by("loading_lines", reading_of(Slow))
    assert finding.where[0] == fault()
    assert "Slow.embed" in finding.seen
    assert finding.gives is Gives.SPEED
    assert finding.gain.basis is Basis.BOUND
    assert 0.5 < finding.gain.share <= 0.9


def test_the_lines_of_a_loop_are_one():
    (finding,) = found_by("loading_lines", reading_of(Loops))
    assert finding.where[0] == fault("hottest of the loop")
    assert finding.gain.share > 0.6


def test_a_loader_that_nobody_waits_for_is_none():
    assert found_by("loading_lines", reading_of(Slow, ceilings=COMPUTING)) == []


def test_samples_in_memory_are_none():
    assert found_by("loading_lines", reading_of(vectors)) == []
