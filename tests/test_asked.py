"""Wishes as they are given from Python: each is taken as it is meant, or refused before anything runs."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import numpy
import pytest

import autotune
from autotune.asked import wishes_from
from autotune.errors import UsageError
from autotune.search.setup import Wishes
from tests.test_tuning import workload


@pytest.mark.parametrize("name", [item.name for item in fields(Wishes)])
@pytest.mark.parametrize("value", [object(), b"8", float("nan"), -1.5, [object()], {3: 4}])
def test_what_no_wish_can_be_is_refused_by_name(name, value):
    with pytest.raises(UsageError, match=name):
        wishes_from({name: value})


WRONG = [
    {"excluded": "precision"},
    {"excluded": ["precison"]},
    {"allowed": "cache_dataset"},
    {"allowed": {"cached": True}},
    {"memory_limit_bytes": "lots"},
    {"memory_limit_bytes": True},
    {"host_memory_limit_bytes": 0},
    {"headroom": "200%"},
    {"headroom": 1},
    {"keep": 0},
    {"trials": "12"},
    {"trials": 1.5},
    {"trials": 0},
    {"timeout_s": "600"},
    {"timeout_s": float("inf")},
    {"trials": None},
    {"baseline": [("batch_size", 8)]},
    {"baseline": {"batch_size": "8"}},
    {"fixed": "precision=fp32"},
    {"restricted": {"num_workers": 2}},
    {"restricted": {"precision": "fp32"}},
    {"restricted": {"num_workers": []}},
    {"keep_batch": "no"},
    {"sandbox": 0},
    {"device": 0},
    {"limits": 3},
]


@pytest.mark.parametrize("wish", WRONG, ids=str)
def test_a_wrong_wish_runs_nothing(wish, tmp_path: Path):
    (name,) = wish
    with pytest.raises(UsageError, match=name):
        autotune.tune(workload(), out=tmp_path / "run", **wish)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ({"memory_limit_bytes": "20GiB"}, {"memory_limit_bytes": 20 << 30}),
        ({"host_memory_limit_bytes": 2e9}, {"host_memory_limit_bytes": 2_000_000_000}),
        ({"memory_limit_bytes": None, "timeout_s": None}, {}),
        ({"headroom": "10%"}, {"headroom": 0.1}),
        ({"headroom": 0}, {"headroom": 0.0}),
        ({"allowed": ["cache_dataset"]}, {"allowed": frozenset({"cache_dataset"})}),
        ({"excluded": ("precision", "channels_last")}, {"excluded": ("precision", "channels_last")}),
        ({"restricted": {"num_workers": range(3)}}, {"restricted": {"num_workers": [0, 1, 2]}}),
        ({"trials": numpy.int64(12), "timeout_s": numpy.float32(60)}, {"trials": 12, "timeout_s": 60.0}),
        ({"timeout_s": 60, "epochs": 3}, {"timeout_s": 60.0, "epochs": 3.0}),
        ({"seed": -1, "wait_idle_s": 0}, {"seed": -1, "wait_idle_s": 0.0}),
    ],
    ids=str,
)
def test_a_wish_is_taken_as_it_is_meant(given, meant):
    assert wishes_from(given) == Wishes(**meant)
