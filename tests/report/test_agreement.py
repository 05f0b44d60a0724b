"""The same figures everywhere: the records on disk against the terminal, the exports, the page and best.toml."""

from __future__ import annotations

import csv
import html
import io
import json
import math
import re

import pytest

from autotune.config import Config, read_document
from autotune.records import Source
from autotune.report.catalogue import entry
from autotune.report.evidence import gather
from autotune.report.export import rows_to_csv, rows_to_json
from autotune.report.html.page import write_page
from autotune.report.rows import full_config
from autotune.report.run import read_run
from autotune.report.summary import print_summary
from autotune.search.run import search_workload
from autotune.search.setup import Wishes
from autotune.search.verification import Verdict, Verification, sentence
from autotune.trials.folder import RunFolder
from autotune.words.figures import memory, rounded
from autotune.words.text import value_text
from tests.report.factory import console_of, text_of
from tests.search.simulated import Listener, SimulatedRunner

GIB = 1 << 30


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A search with its verification, as the search itself wrote it down."""
    path = tmp_path_factory.mktemp("agreement")
    (path / "train.py").write_text("x = 1\n")
    wishes = Wishes(trials=8, host_memory_limit_bytes=GIB, headroom=0.0)
    folder = RunFolder(path / "run")
    source = Source(script=str(path / "train.py"))
    search_workload(source, folder, wishes, Listener(), verify="quick", runner=SimulatedRunner())
    return read_run(folder)


@pytest.fixture(scope="module")
def claim(run):
    return Verification.load(run.folder.verification).best


def squeezed(text):
    return re.sub(r"\s+", " ", text)


@pytest.fixture(scope="module")
def terminal(run):
    console = console_of(160)
    print_summary(console, gather(run))
    return squeezed(text_of(console))


@pytest.fixture(scope="module")
def page(run):
    text = re.sub(r"<(script|style)\b.*?</\1>", " ", write_page(run).read_text().replace("<wbr>", ""), flags=re.DOTALL)
    return squeezed(html.unescape(re.sub(r"<[^>]*>", " ", text)))


def test_the_exports_are_the_records(run):
    rows = {row["trial"]: row for row in json.loads(rows_to_json(run))["rows"]}
    table = {int(row["trial"]): row for row in csv.DictReader(io.StringIO(rows_to_csv(run)))}
    assert rows.keys() == table.keys()
    records = {record.number: record for record in run.screening}
    for number, row in rows.items():
        own = [records[trial].measurement for trial in row["trials"]]
        assert row["sample_s"] == pytest.approx(math.exp(sum(math.log(item.sample_s) for item in own) / len(own)))
        assert row["peak_bytes"] == max(item.lifetime.host for item in own)
        assert float(table[number]["sample_s"]) == row["sample_s"]
        assert int(table[number]["peak_bytes"]) == row["peak_bytes"]
        assert float(table[number]["samples_per_s"]) == pytest.approx(1 / row["sample_s"])


def test_the_verdict_is_one(run, claim, terminal, page):
    assert claim.verdict is Verdict.FASTER
    told = sentence(claim)
    main, _, rest = told.partition(" (")
    assert told in terminal
    assert main in page
    assert rest.removesuffix(")") in page
    assert read_document(run.folder.best)["measured"]["status"] == told
    assert entry(run.folder.path).verdict == told


def test_the_best_config_is_one(run, claim, terminal, page):
    best = Config.load(run.folder.best)
    assert not best.difference(Config(**claim.candidate))
    for name, value in best.difference(run.baseline).items():
        for shown in (terminal, page):
            assert f"{name} {_told(run.baseline, name)} {value_text(value)} " in shown
    assert entry(run.folder.path).best.partition("=")[0] in best


def _told(config, name):
    value = full_config(config)[name]
    return "no effect" if value is None else value_text(value)


def test_throughput_and_step_time_are_those_of_the_windows(run, claim, terminal, page):
    found, half = claim.figures, claim.comparison.noise
    before, after = (
        rounded(1 / time_s, half / time_s) for time_s in (found.baseline_sample_s, found.candidate_sample_s)
    )
    assert f"samples/s {before} {after}" in terminal
    assert f"samples/s {before} → {after}" in page
    measured = read_document(run.folder.best)["measured"]
    assert measured["baseline_samples_per_s"] == pytest.approx(1 / found.baseline_sample_s, rel=1e-3)
    assert measured["config_samples_per_s"] == pytest.approx(1 / found.candidate_sample_s, rel=1e-3)
    steps = [rounded(1e3 * step, half * 1e3 * step) for step in (found.baseline_step_s, found.candidate_step_s)]
    assert f"ms a step {' '.join(steps)}" in terminal
    assert f"ms a step {' → '.join(dict.fromkeys(steps))}" in page


def test_peak_memory_is_that_of_the_records(run, terminal, page):
    def peak(config):
        return max(
            record.measurement.lifetime.host
            for record in run.screening
            if record.measurement and not Config(**record.config).difference(config)
        )

    before, after = peak(run.baseline), peak(Config.load(run.folder.best))
    assert f"peak host memory {memory(before)} {memory(after)}" in terminal
    assert memory(after) in page
    measured = read_document(run.folder.best)["measured"]
    assert (measured["baseline_peak_bytes"], measured["config_peak_bytes"]) == (before, after)
    first = json.loads(rows_to_json(run))["rows"][0]
    assert (first["rank"], first["peak_bytes"]) == (1, after)
