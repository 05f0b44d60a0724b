from __future__ import annotations

import contextlib
import time

import torch
from torch import nn

from autotune import config
from autotune.doctor.lines import Birthplaces, calls_to, find_nodes, sample_lines, users
from tests.doctor.looking import fault


class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(2, 2)  # inner


def nap():
    time.sleep(0.2)  # nap


def test_modules_know_the_line_that_made_them():
    birthplaces = Birthplaces()
    with birthplaces.watching():
        model = nn.Sequential(Own(), nn.ReLU())  # outer
    assert birthplaces.place("0", model[0]) == f"0 ({fault('outer')})"
    assert birthplaces.place("0.inner", model[0].inner) == f"0.inner ({fault('inner')})"
    assert birthplaces.place("", nn.Linear(1, 1)) == "Linear"


def test_samples_fall_on_the_line_that_takes_the_time():
    found = sample_lines(nap)
    line, times = found.forward.most_common(1)[0]
    assert str(line) == fault("nap")
    assert times / found.samples > 0.8
    assert found.share({line}) == times / found.samples


def test_files_of_libraries_and_our_own_are_not_the_users():
    assert users(__file__)
    assert not any(users(file) for file in (torch.__file__, contextlib.__file__, config.__file__, "<string>"))


def test_calls_are_found_in_sources():
    assert len(list(find_nodes(calls_to("sample_lines"), [__file__]))) == 1
