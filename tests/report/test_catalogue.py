"""All runs with their verdicts."""

from __future__ import annotations

import csv
import io
import json
import os
from pathlib import Path

import pytest
from rich.cells import cell_len

from autotune.report.catalogue import catalogue_csv, catalogue_json, entry, print_catalogue, run_folders
from autotune.search.verification import Verification, sentence
from tests.report.conftest import mixed_records, write_run
from tests.report.factory import console_of, failed, text_of
from tests.report.html.conftest import verified_run


@pytest.fixture
def root(tmp_path):
    """Four runs: a verified one, one that ended early, a failed one, a damaged one."""
    root = tmp_path / "results"
    verified_run(root / "verified")
    write_run(root / "early", mixed_records())
    write_run(root / "group" / "failed", [failed(0)])
    write_run(root / "damaged", []).folder.run.write_text("{")
    for age, name in enumerate(("verified", "early", "group/failed", "damaged")):
        os.utime(root / name / "run.json", (1000 - age, 1000 - age))
    return root


def test_each_run_has_its_verdict(root):
    entries = [entry(path) for path in run_folders(root)]
    assert [item.run for item in entries] == [
        str(root / name) for name in ("verified", "early", "group/failed", "damaged")
    ]
    told = Verification.load(root / "verified" / "verification.json").best
    assert entries[0].verdict == sentence(told)
    assert entries[1].verdict == "not verified: it did not end"
    assert entries[2].verdict == "no config was measured within the limits"
    assert entries[3].verdict.startswith("damaged ")
    assert entries[0].best == "batch_size=128, precision=bf16, num_workers=4"


@pytest.mark.parametrize("width", [80, 160])
def test_in_the_terminal(root, width, monkeypatch):
    monkeypatch.chdir(root.parent)
    console = console_of(width)
    print_catalogue(console, [entry(path) for path in run_folders(root.relative_to(root.parent))])
    text = text_of(console)
    assert max(map(cell_len, text.splitlines())) <= width
    assert "2.75x faster" in text
    assert ("precision=bf16" in text) is (width == 160)
    assert text.rstrip().endswith("A run's trials: autotune results results/verified")


def test_for_programs(root):
    entries = [entry(path) for path in run_folders(root)]
    rows = list(csv.DictReader(io.StringIO(catalogue_csv(entries))))
    runs = json.loads(catalogue_json(entries))["runs"]
    assert [row["verdict"] for row in rows] == [run["verdict"] for run in runs]
    assert catalogue_csv([]).startswith("run,")


@pytest.mark.parametrize(
    ("file", "name", "value"),
    [
        ("trials/0003.json", "config", {"batch_size": 64, "tomorrow": 1}),
        ("trials/0003.json", "config", {"batch_size": 0}),
        ("trials/0008.json", "config", {"precision": ["bf16"]}),
        ("run.json", "baseline", {"batch_size": 64, "tomorrow": 1}),
        ("run.json", "started_at", 1.7e12),  # milliseconds
        ("run.json", "started_at", -9e18),
    ],
)
def test_a_run_that_another_version_wrote_hides_no_other(root, file, name, value):
    def verdicts():
        return {Path(item.run).name: item.verdict for item in map(entry, run_folders(root))}

    before, path = verdicts(), root / "early" / file
    path.write_text(json.dumps({**json.loads(path.read_text()), name: value}))
    told = verdicts().pop("early")
    assert told.startswith("damaged ")
    assert str(path) in told
    assert verdicts() == {**before, "early": told}
