from __future__ import annotations

import random

import numpy as np
import torch
from torch.utils.data import Dataset

from autotune.doctor.findings import Gives
from tests.doctor.looking import fault, found_by
from tests.doctor.reads import reading_of

module_generator = random.Random(0)  # module


class Flips(Dataset):
    def __init__(self):
        self.generator = np.random.default_rng(0)  # attribute

    def __len__(self):
        return 32

    def __getitem__(self, index):
        return torch.tensor(self.generator.random())


class FromModule(Flips):
    def __getitem__(self, index):
        return torch.tensor(module_generator.random())


class Elsewhere:
    """Has an attribute of the same name, which no sample draws from."""

    def __init__(self):
        self.generator = np.random.default_rng(1)


class Global(Flips):
    def __getitem__(self, index):
        return torch.rand(2) + np.random.rand() + random.random()


def test_a_generator_of_the_dataset_is_found():
    (finding,) = found_by("repeated_randomness", reading_of(Flips, num_workers=2))
    assert finding.where == (fault("attribute"),)
    assert finding.gives is Gives.RESULT
    assert "all 2 workers" in finding.seen
    assert "every epoch" in finding.seen


def test_a_generator_of_the_module_is_found():
    (finding,) = found_by("repeated_randomness", reading_of(FromModule, num_workers=1))
    assert finding.where == (fault("module"),)
    assert "workers draw" not in finding.seen


def test_what_the_loader_seeds_or_what_is_not_copied_is_none():
    assert found_by("repeated_randomness", reading_of(Global, num_workers=2)) == []
    assert found_by("repeated_randomness", reading_of(Flips)) == []
    assert found_by("repeated_randomness", reading_of(Flips, num_workers=1, persistent_workers=True)) == []
