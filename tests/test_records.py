"""Records on disk: what is written is what is read, and what is damaged says where."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from autotune.documents import from_json, from_plain, read_record, to_json
from autotune.records import (
    FORMAT,
    Block,
    Failure,
    Limits,
    Measurement,
    Outcome,
    Peaks,
    Phases,
    Source,
    TrialRecord,
    TrialSpec,
)
from autotune.search.verification.windows import Window

MEASUREMENT = Measurement(
    sample_s=0.001,
    step_s=0.008,
    uncertainty=math.inf,
    samples_per_step=8.0,
    wait_s=0.0,
    compute_s=None,
    loader_s=0.002,
    epoch_overhead_s=0.1,
    epoch_overhead_estimated=False,
    steps_per_epoch=None,
    samples_per_epoch=4096,
    lifetime=Peaks(host=5, reserved=6, outside_torch=2),
    steady=Peaks(host=3, tree_pss=4),
    blocks=(Block(steps=3, samples=24, wall_s=0.02, wait_s=0.0), Block(steps=3, samples=24, wall_s=0.03, wait_s=0.01)),
    kept_from=1,
    autocorrelation=0.25,
    mean_step_s=0.008,
    p95_step_s=0.01,
    flags=("bursty",),
    losses=(1.5, math.inf),
    updates=7,
)
RECORD = TrialRecord(
    number=3,
    config={"batch_size": 8, "precision": "bf16", "channels_last": True},
    outcome=Outcome.OK,
    measurement=MEASUREMENT,
    gradient_names=("bias", "weight"),
    phases=Phases(window_s=1.5),
    limits=Limits(host_bytes=1 << 33),
    versions={"torch": "2.13.0"},
)
SPEC = TrialSpec(
    number=3,
    config={"batch_size": 8},
    baseline={},
    source=Source(script="train.py", arguments=("--data", "x y"), functions={"model": "make"}),
    device="",
    limits=Limits(host_bytes=1, device_bytes=None),
    record_path="/tmp/x.json",
)


@pytest.mark.parametrize(
    "record", [RECORD, replace(RECORD, measurement=None, failure=Failure(reason="why", message="é\n"))]
)
def test_a_record_comes_back_as_it_was(tmp_path, record):
    path = tmp_path / "0003.json"
    path.write_text(to_json(record), encoding="utf-8")
    assert read_record(path) == record


def test_a_spec_comes_back_as_it_was():
    assert from_json(TrialSpec, to_json(SPEC)) == SPEC
    assert from_plain(Limits, {"host_bytes": 5, "budget_s": 2}) == Limits(host_bytes=5, budget_s=2.0)


def test_what_a_measurement_implies():
    assert MEASUREMENT.contention_s is None
    assert replace(MEASUREMENT, compute_s=0.006, wait_s=0.001).contention_s == pytest.approx(0.001)
    assert MEASUREMENT.samples_per_s == pytest.approx(1000)
    assert (MEASUREMENT.lifetime.needed(True), MEASUREMENT.steady.needed(False)) == (8, 4)
    assert [outcome for outcome in Outcome if outcome.measured] == [Outcome.OK, Outcome.PRUNED]


def changed(**fields) -> str:
    return json.dumps({**json.loads(to_json(RECORD)), **fields})


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "Expecting value"),
        (to_json(RECORD)[:-20], "Unterminated string"),
        ("[]", "TrialRecord is not a table"),
        ("null", "TrialRecord is not a table"),
        ("{}", "incomplete"),
        ("[" * 100_000, "nested too deeply"),
        (changed(surprise=1), "unknown fields: surprise"),
        (changed(number="three"), "TrialRecord.number is not int"),
        (changed(number=True), "TrialRecord.number is not int"),
        (changed(wall_s="long"), "TrialRecord.wall_s is not float"),
        (changed(outcome="fine"), "'fine' is not a valid Outcome"),
        (changed(config=[]), "TrialRecord.config is not a table"),
        (changed(gradient_names="bias"), "TrialRecord.gradient_names is not a list"),
        (changed(measurement={"sample_s": 1.0}), "TrialRecord.measurement is incomplete"),
        (changed(phases={"window_s": None}), "TrialRecord.phases.window_s is not float"),
        (changed(config={"batch_size": 10**400}), "TrialRecord.config.batch_size is not a number that can be"),
        (changed(config={"num_workers": [1, {"a": 1e-310}]}), "config.num_workers[1].a is not a number that can be"),
        (changed(started_at=1e-310), "TrialRecord.started_at is not a number that can be"),
        (changed(format=FORMAT + 1, unheard_of=1), f"format {FORMAT + 1}; this version reads {FORMAT}"),
    ],
)
def test_a_damaged_record_says_what_is_wrong_and_where(tmp_path, text, complaint):
    path = tmp_path / "0003.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"0003\.json") as caught:
        read_record(path)
    assert complaint in str(caught.value)


def test_a_time_that_is_divided_by_is_positive_in_every_document():
    window = {
        "stage": "claim",
        "round": 0,
        "arm": "baseline",
        "config": {},
        "trial": 3,
        "started_at": 1.0,
        "wall_s": 1.0,
    }
    assert from_plain(Window, {**window, "sample_s": None, "step_s": 1.0}).step_s == 1.0
    for name in ("sample_s", "step_s"):
        with pytest.raises(ValueError, match=f"Window.{name} is not positive"):
            from_plain(Window, {**window, "sample_s": 1.0, name: 0.0})


def test_a_record_that_is_not_there_or_no_text(tmp_path):
    with pytest.raises(ValueError, match="No such file"):
        read_record(tmp_path / "none.json")
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match=r"binary\.json"):
        read_record(tmp_path / "binary.json")
