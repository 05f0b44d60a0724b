"""CSV and JSON hold the same rows under stable names."""

from __future__ import annotations

import csv
import io
import json
import math

import pytest

from autotune.options import OPTIONS
from autotune.report.export import FIGURES, rows_to_csv, rows_to_json
from tests.report.factory import failed, ok


def read(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_names_are_stable():
    """Scripts of users rely on these: add names, never change one."""
    expected = """trial trials kind rank runs outcome reason samples_per_s sample_s within_run_half_width tokens_per_s
        step_ms samples_per_step data_wait_share input_bound peak_bytes limit_bytes fits flags wall_s
        compile_s recompilations"""
    assert list(FIGURES) == expected.split()


def test_csv_can_be_read_back(save, mixed):
    rows = {row["trial"]: row for row in read(rows_to_csv(save(mixed)))}
    assert set(rows) == {"0", "2", "3", "4", "5", "6", "7"}
    best = rows["3"]
    assert (best["rank"], best["outcome"], best["fits"]) == ("1", "ok", "true")
    assert float(best["samples_per_s"]) == pytest.approx(1 / 0.00052)
    assert (best["option.batch_size"], best["option.precision"], best["option.num_workers"]) == ("128", "bf16", "4")
    assert rows["0"]["option.prefetch_factor"] == ""  # no workers, no effect
    assert rows["0"]["trials"] == "0 1"
    assert (rows["5"]["samples_per_s"], rows["5"]["reason"]) == ("", "out of device memory")
    assert {f"option.{name}" for name in OPTIONS} <= set(best)


def test_csv_of_every_run(save, mixed):
    assert len(read(rows_to_csv(save(mixed), every=True))) == 8


def test_csv_keeps_awkward_text(save):
    reason = 'a "quoted", text\nof two lines'
    (row,) = read(rows_to_csv(save([failed(0, reason=reason)])))
    assert row["reason"] == reason


def test_json_has_the_same_rows(save, mixed):
    run = save(mixed)
    document = json.loads(rows_to_json(run))
    assert document["format"] == 1
    assert "not comparable" in document["note"]
    assert document["baseline"]["batch_size"] == 64
    assert [row["trial"] for row in document["rows"]] == [int(row["trial"]) for row in read(rows_to_csv(run))]
    assert set(document["rows"][0]) == {*FIGURES, "config", "differs"}
    assert set(document["rows"][0]["config"]) == set(OPTIONS)


def test_json_has_no_words_that_json_lacks(save):
    document = json.loads(rows_to_json(save([ok(0, uncertainty=math.inf)])), parse_constant=pytest.fail)
    assert document["rows"][0]["within_run_half_width"] is None
