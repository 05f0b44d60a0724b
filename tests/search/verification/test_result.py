"""Storage of a verification: whole, checked, and enough to compute the verdict again."""

from __future__ import annotations

import dataclasses
import json
import math

import pytest

from autotune.config import Config
from autotune.search.verification import Verification, attribute, verify
from autotune.search.verification.statistics import compare
from tests.search.verification.synthetic_machine import SyntheticMachine, white

BASELINE, FAST = Config(batch_size=32), Config(batch_size=32, precision="bf16", channels_last=True)


@pytest.fixture(scope="module")
def result() -> Verification:
    found = SyntheticMachine(lambda config: 0.7 if config == FAST else 1.0, white(0, 0.01))
    verified = verify(found.measure, BASELINE, [FAST, Config(batch_size=64)], clock=found.clock, self_test=True)
    why = attribute(found.measure, BASELINE, FAST, clock=found.clock)
    return dataclasses.replace(verified, attributions=(why,), versions={"torch": "2.13"})


def test_round_trip(result, tmp_path):
    path = tmp_path / "verification.json"
    result.save(path)
    assert Verification.load(path) == result
    assert Verification.from_dict(result.to_dict()) == result
    assert [item.name for item in tmp_path.iterdir()] == ["verification.json"]


def test_a_reader_can_compute_the_claim_again(result):
    data = json.loads(json.dumps(result.to_dict()))
    windows = data["best"]["windows"]
    times = {arm: [item["sample_s"] for item in windows if item["arm"] == arm] for arm in ("baseline", "candidate")}
    look = data["best"]["looks"][-1]
    again = compare(times["baseline"], times["candidate"], alpha=look["alpha"])
    assert math.isclose(again.lower, look["lower"])
    assert [item["started_at"] for item in windows] == sorted(item["started_at"] for item in windows)


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        ({"format": 99}, "format 99"),
        ({"surprise": 1}, "unknown fields: surprise"),
        ({"choice": []}, "Verification.choice is not a table"),
        ({"choice": {}}, "Verification.choice is incomplete"),
        ({"best": "yes"}, "Verification.best is not a table"),
    ],
)
def test_damage_is_named(result, damage, complaint):
    with pytest.raises(ValueError, match=complaint):
        Verification.from_dict({**result.to_dict(), **damage})


FOREIGN = {"warp": 9}


@pytest.mark.parametrize(
    "place",
    [
        ("best", "candidate"),
        ("best", "baseline"),
        ("attributions", 0, "winner"),
        ("choice", "ranking", 0, "config"),
        ("choice", "ranking", -1, "config"),
    ],
    ids=str,
)
def test_an_unknown_option_is_refused_wherever_it_stands(result, place):
    data = json.loads(json.dumps(result.to_dict()))
    *way, last = place
    inner = data
    for key in way:
        inner = inner[key]
    inner[last] = FOREIGN
    with pytest.raises(ValueError, match="unknown option: warp"):
        Verification.from_dict(data)


def test_an_unknown_verdict_is_refused(result):
    data = result.to_dict()
    with pytest.raises(ValueError, match="great"):
        Verification.from_dict({**data, "best": {**data["best"], "verdict": "great"}})


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 1'])
def test_a_broken_file_names_itself(tmp_path, text):
    path = tmp_path / "verification.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"verification\.json"):
        Verification.load(path)
