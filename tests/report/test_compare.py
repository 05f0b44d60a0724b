"""Two runs side by side."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from rich.cells import cell_len

from autotune.errors import UsageError
from autotune.records import Source
from autotune.report.compare import compare_runs, comparison_json, print_comparison
from tests.report.conftest import mixed_records, write_run
from tests.report.factory import console_of, failed, make_info, ok, text_of

MACHINE = make_info().machine


@pytest.fixture
def first(tmp_path):
    return write_run(tmp_path / "first", mixed_records())


def test_what_changed_and_what_did_not(first, tmp_path):
    machine = {**MACHINE, "usable_cores": 2.0, "versions": {"torch": "2.14.0"}}
    second = write_run(tmp_path / "second", [ok(0, sample_s=0.0005)], machine=machine)
    found = compare_runs(first, second)
    changed = {line.what: (line.first, line.second) for line in found.surroundings if not line.same}
    assert changed == {"cores": ("8", "2"), "torch": ("2.13.0", "2.14.0"), "trials": ("8", "1")}
    figures = {line.what: (line.first, line.second) for line in found.figures}
    assert figures["baseline samples/s"] == ("980", "2000")
    assert figures["verdict"] == ("not verified", "not verified")
    best = {line.what: (line.first, line.second) for line in found.best}
    assert best == {"batch_size": ("128", "64"), "precision": ("bf16", "fp32"), "num_workers": ("4", "0")}
    assert found.incomparable == ()


def test_what_cannot_be_compared_is_said(first, tmp_path):
    changes = {
        "facts": {**first.info.facts, "dataset_length": 5000},
        "script_hash": "abc",
        "baseline": {"batch_size": 32},
        "planned_samples": 1000,
        "objective": "memory",
    }
    found = compare_runs(first, write_run(tmp_path / "second", mixed_records(), **changes))
    told = " ".join(found.incomparable)
    for part in ("dataset length is unknown in one, 5,000 in the other", "text changed", "baseline", "start", "memory"):
        assert part in told


def test_runs_of_different_scripts_are_refused(first, tmp_path):
    second = write_run(tmp_path / "second", mixed_records(), source=Source(script="/elsewhere/other.py"))
    with pytest.raises(UsageError, match=r"different scripts: .*first of train\[1\].py, .*second of other.py"):
        compare_runs(first, second)
    elsewhere = write_run(tmp_path / "third", mixed_records(), source=Source(script="/elsewhere/train[1].py"))
    assert compare_runs(first, elsewhere).incomparable == ()  # another machine has other folders


@pytest.mark.parametrize("width", [80, 160])
def test_in_the_terminal_and_for_programs(first, tmp_path, width):
    other = replace(first.info, baseline={"batch_size": 32})
    second = write_run(tmp_path / "second", mixed_records(), baseline=other.baseline)
    found = compare_runs(first, second)
    console = console_of(width)
    print_comparison(console, first, second, found)
    lines = text_of(console).splitlines()
    assert max(map(cell_len, lines)) <= width
    assert lines[0].startswith("Not comparable: the speed-ups: each is against a baseline of its own")
    assert "their difference proves nothing" in " ".join(lines)
    document = json.loads(comparison_json(first, second, found))
    assert document["runs"] == [str(first.folder.path), str(second.folder.path)]
    assert {line["what"]: line["second"] for line in document["surroundings"]}["baseline"] == "batch_size=32"


def test_a_run_without_an_answer_has_no_options_to_tell(first, tmp_path):
    none = write_run(tmp_path / "none", [failed(0)])
    found = compare_runs(none, first)
    best = {line.what: (line.first, line.second) for line in found.best}
    assert best == {"batch_size": ("", "128"), "precision": ("", "bf16"), "num_workers": ("", "4")}
    console = console_of(120)
    print_comparison(console, none, first, found)
    assert "no effect" not in text_of(console)
    assert ["precision", "-", "bf16"] in [line.split() for line in text_of(console).splitlines()]
