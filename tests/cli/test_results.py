"""`autotune results` as people type it, wrong inputs among them."""

from __future__ import annotations

import csv
import io
import json

import pytest

from autotune.records import Source
from tests.report.conftest import mixed_records, write_run


@pytest.fixture
def runs(tmp_path):
    """Two runs of one script, and one of another."""
    write_run(tmp_path / "results" / "train", mixed_records())
    write_run(tmp_path / "results" / "later", mixed_records())
    write_run(tmp_path / "results" / "other", mixed_records(), source=Source(script="/x/other.py"))


def test_without_an_argument_all_runs_are_listed(run, runs):
    ended = run("results")
    assert ended.status == 0, ended.err
    assert ended.out.count("not verified") == 3
    assert len(json.loads(run("results", "--json").out)["runs"]) == 3
    assert len(list(csv.DictReader(io.StringIO(run("results", "--csv").out)))) == 3


def test_an_option_of_a_run_takes_the_newest_and_says_so(run, runs):
    ended = run("results", "--where", "precision=bf16", "--json")
    assert [row["trial"] for row in json.loads(ended.out)["rows"]] == [3, 2]
    assert "the newest run:" in ended.err


def test_selections_go_together(run, runs):
    ended = run("results", "results/train", "--where", "num_workers=0,4", "--where", "batch_size=64", "--all", "--csv")
    assert [row["trial"] for row in csv.DictReader(io.StringIO(ended.out))] == ["2", "0", "1"]
    ended = run("results", "results/train", "--pareto", "--json")
    assert [row["trial"] for row in json.loads(ended.out)["rows"]] == [3]
    ended = run("results", "results/train", "--sort", "trial", "--csv")
    assert [row["trial"] for row in csv.DictReader(io.StringIO(ended.out))] == ["0", "2", "3", "4", "5", "6", "7"]


def test_groups_and_comparison(run, runs):
    assert (
        json.loads(run("results", "results/train", "--group-by", "precision", "--json").out)["group_by"] == "precision"
    )
    ended = run("results", "--compare", "results/train", "results/later")
    assert ended.status == 0, ended.err
    assert "baseline samples/s" in ended.out
    assert json.loads(run("results", "--compare", "results/train", "results/later", "--json").out)["incomparable"] == []


def test_a_pipe_gets_no_escapes(run, runs):
    for arguments in (
        [],
        ["results/train"],
        ["results/train", "--pareto"],
        ["results/train", "--group-by", "precision"],
    ):
        assert "\x1b" not in run("results", *arguments).out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["results/nowhere"], "no search in results/nowhere"),
        (["results/train", "--where", "precisio=bf16"], "unknown option: precisio"),
        (["results/train", "--where", "precision"], "not in the form precision=bf16"),
        (["results/train", "--where", "num_workers=many"], "takes a whole number"),
        (["results/train", "--where", "precision=fp16"], "no trial of results/train has precision=fp16"),
        (["results/train", "--group-by", "speed"], "unknown option: speed"),
        (["results/train", "--group-by", "precision", "--pareto"], "--group-by goes with neither"),
        (["results/train", "--sort", "speed"], "cannot sort by speed"),
        (["results/train", "--csv", "--json"], "one of them"),
        (["--compare", "results/train", "results/other"], "different scripts"),
        (["--compare", "results/train", "results/nowhere"], "no search in results/nowhere"),
        (["results/train", "--compare", "results/train", "results/later"], "--compare RUN1 RUN2 takes the two runs"),
    ],
)
def test_wrong_inputs_are_one_clear_message(run, runs, arguments, message):
    ended = run("results", *arguments)
    ended.check_clear()
    assert ended.status == 2
    assert message in ended.message


def test_no_run_at_all(run):
    ended = run("results")
    ended.check_clear()
    assert "there is no run under results/" in ended.message
