"""What `results` shows of a run: by value, by group, and the front with its plot."""

from __future__ import annotations

import csv
import io
import json

import pytest
from rich.cells import cell_len

from autotune.errors import UsageError
from autotune.report.grouped import groups_csv, groups_json, print_groups
from autotune.report.rows import rows_of_run
from autotune.report.scatter import HEIGHT, scatter
from autotune.report.selection import Selection, groups
from autotune.report.table import print_results
from tests.report.factory import GIB, console_of, failed, ok, text_of


def trials(run, **options):
    return [row.trial for row in Selection(**options).rows(run)]


def test_rows_by_value(save, mixed):
    run = save(mixed)
    assert trials(run, where={"precision": ("bf16",)}) == [3, 2]
    assert trials(run, where={"precision": ("bf16",), "num_workers": (0, 2)}) == [2]
    assert trials(run, where={"num_workers": (2, 8)}) == [7, 6]
    assert trials(run, where={"batch_size": (64,)}, every=True) == [2, 0, 1, 7, 6]


def test_a_value_that_no_trial_has_names_those_there_are(save, mixed):
    with pytest.raises(UsageError, match="has precision=fp16") as raised:
        trials(save(mixed), where={"precision": ("fp16",)})
    assert raised.value.hint == "precision was tried as bf16, fp32"


def test_an_option_without_effect_has_no_value(save, mixed):
    run = save([*mixed, ok(9, {"num_workers": 2, "prefetch_factor": 4})])
    assert trials(run, where={"prefetch_factor": (4,)}) == [9]


@pytest.fixture
def trade_off(save):
    """Three configs on the front, one behind it, one over the limit."""
    return save([
        ok(0, sample_s=0.001, host=2 * GIB),
        ok(1, {"batch_size": 8}, sample_s=0.002, host=GIB),
        ok(2, {"batch_size": 16}, sample_s=0.003, host=GIB + 1),
        ok(3, {"batch_size": 128}, sample_s=0.0005, host=6 * GIB),
        ok(4, {"batch_size": 256}, sample_s=0.0004, host=9 * GIB),
    ])  # fmt: skip


def test_the_front_has_the_fastest_for_each_memory_size(trade_off):
    assert trials(trade_off, pareto=True) == [1, 0, 3]
    assert trials(trade_off, pareto=True, sort="samples_per_s") == [3, 0, 1]


@pytest.mark.parametrize("ascii_only", [False, True])
@pytest.mark.parametrize("width", [60, 80, 160])
def test_the_plot_places_every_config(trade_off, width, ascii_only):
    rows = rows_of_run(trade_off)
    lines = scatter(rows, Selection(pareto=True).rows(trade_off), width, ascii_only=ascii_only)
    front, other, limit = "*.|" if ascii_only else "●·│"
    field = "".join(line[line.index("|" if ascii_only else "┤") + 1 :] for line in lines[:HEIGHT])
    assert max(map(cell_len, lines[:-1])) <= min(width, 101)
    assert (field.count(front), field.count(other), field.count("B")) == (2, 2, 1)
    assert HEIGHT - 2 <= field.count(limit) <= HEIGHT
    top, bottom = (next(index for index, line in enumerate(lines) if mark in line) for mark in (front, "B"))
    assert top < bottom  # the faster one is higher
    assert all(ord(character) < 128 for line in lines for character in line) is ascii_only


def test_nothing_measured_has_no_plot():
    assert scatter([], [], 80) == []


def test_the_front_in_the_terminal(trade_off):
    console = console_of(80)
    print_results(console, trade_off, Selection(pareto=True))
    text = text_of(console)
    assert "samples/s by peak memory: ● fastest for its memory" in text
    assert max(map(cell_len, text.splitlines())) <= 80


@pytest.mark.parametrize(
    ("records", "told"),
    [
        ([ok(0, host=9 * GIB), ok(1, host=9 * GIB)], "None of the configs measured is within the limits."),
        ([failed(0)], "No config was measured."),
        ([], "No config was measured."),
    ],
    ids=["over the limit", "failed", "none"],
)
def test_an_empty_front_says_why(save, records, told):
    console = console_of(120)
    print_results(console, save(records), Selection(pareto=True))
    assert told in text_of(console)
    assert ("No config was measured." in text_of(console)) is (told == "No config was measured.")


def test_groups(save, mixed):
    run = save(mixed)
    bf16, fp32 = groups(rows_of_run(run), "precision")
    assert (bf16.label, bf16.configs, bf16.failed, bf16.best.trial) == ("bf16", 2, 0, 3)
    assert (fp32.label, fp32.configs, fp32.failed, fp32.best.trial) == ("fp32", 5, 2, 0)
    assert [group.label for group in groups(rows_of_run(run), "prefetch_factor")] == ["no effect"]


@pytest.mark.parametrize("option", ["precision", "inplace_activations"])
@pytest.mark.parametrize("width", [40, 80, 160])
def test_groups_in_the_terminal(save, mixed, width, option):
    named = {"inplace_activations": "all but encoder.*:Dropout2d decoder.*:Dropout2d head.*:Dropout2d"}
    console = console_of(width)
    print_groups(console, groups(rows_of_run(save([*mixed, ok(9, named)])), option), option)
    text = text_of(console)
    assert max(map(cell_len, text.splitlines())) <= width
    assert "1920" in text
    assert "1.00 GiB" in text
    assert "…" not in text
    assert ("batch_size=128" in text) is (width == 160)


def test_groups_for_programs(save, mixed):
    found = groups(rows_of_run(save(mixed)), "precision")
    document = json.loads(groups_json(found, "precision"))
    table = list(csv.DictReader(io.StringIO(groups_csv(found, "precision"))))
    assert [group["value"] for group in document["groups"]] == [row["option.precision"] for row in table]
    for group, row in zip(document["groups"], table, strict=True):
        assert float(row["best_samples_per_s"]) == group["best_samples_per_s"]
