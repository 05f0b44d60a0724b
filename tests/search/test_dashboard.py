"""What optuna-dashboard itself shows of a search's study, asked by its own API."""

from __future__ import annotations

import io
import json
import warnings

import optuna
import pytest

from autotune.config import Config
from autotune.records import Outcome
from autotune.search.dashboard import LONGEST, constrain
from autotune.search.ledger import Ledger
from autotune.search.observation import observe
from autotune.search.samplers import make_sampler
from tests.report.factory import GIB, failed, ok

LIMIT = 8 * GIB


@pytest.fixture
def storage(tmp_path):
    return f"sqlite:///{tmp_path}/study.db"


@pytest.fixture
def ledger(small_space, storage):
    return Ledger(small_space, make_sampler("random", small_space, 0), storage)


@pytest.fixture
def shown(ledger, storage):
    """Tell what the dashboard answers, as JSON, once there are these trials in the study."""
    dashboard = pytest.importorskip("optuna_dashboard", reason="needs optuna-dashboard")

    def ask(*records):
        for record in records:
            config = Config(**record.config)
            trial = ledger.ask_for(config)
            ledger.describe(trial, config, record.kind)
            ledger.tell(trial, record, observe(record, config, LIMIT, accelerator=False))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of its own dependencies
            application = dashboard.wsgi(optuna.storages.RDBStorage(storage))
            (study,) = get(application, "/api/studies")["study_summaries"]
            return get(application, f"/api/studies/{study['study_id']}")

    return ask


def get(application, path):
    """Return what the dashboard's application answers to a browser."""
    environment = {
        "REQUEST_METHOD": "GET",
        "PATH_INFO": path,
        "QUERY_STRING": "after=0",
        "SERVER_NAME": "localhost",
        "SERVER_PORT": "80",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(),
        "wsgi.errors": io.StringIO(),
    }
    statuses = []
    body = b"".join(application(environment, lambda status, headers, error=None: statuses.append(status)))
    assert statuses == ["200 OK"]
    return json.loads(body)


def attributes(trial):
    return {item["key"]: item["value"] for item in trial["user_attrs"]}


def test_names_and_attributes(shown):
    study = shown(ok(0, {"batch_size": 32}, kind="baseline"), ok(1, {"batch_size": 64}, sample_s=0.0005, host=2 * GIB))
    assert study["objective_names"] == ["seconds per sample"]
    assert "`memory` is peak memory over the limit" in study["note"]["body"]
    first, second = study["trials"]
    assert attributes(first)["differs"] == "baseline"
    told = attributes(second)
    assert told["differs"].startswith("batch_size=64")
    assert (float(told["peak_mib"]), float(told["memory_share"])) == (2048, 0.25)
    sortable = {item["key"] for item in study["union_user_attrs"] if item["sortable"]}
    assert {"samples_per_s", "step_ms", "peak_mib", "data_wait"} <= sortable


def test_notes_say_what_happened(shown):
    trouble = failed(1, {"batch_size": 64}, Outcome.ERROR, "ValueError", message="bad ~~~~ index", traceback="line 3")
    study = shown(ok(0, {"batch_size": 32}, flags=("cpu_contended",)), trouble)
    first, second = (trial["note"]["body"] for trial in study["trials"])
    assert "1e+03 samples/s (±2 % within this single run)" in first
    assert "peak memory 1024 MiB of 8192 MiB allowed" in first
    assert "flags: cpu contended" in first
    assert "**trial: error**" in second
    assert "ValueError" in second
    assert second.count("~~~~") == 1
    assert "line 3" in second


def test_what_does_not_fit_is_infeasible(shown):
    study = shown(
        ok(0, {"batch_size": 32}),
        ok(1, {"batch_size": 64}, sample_s=0.0001, host=9 * GIB),
        failed(2, {"batch_size": 16}),
    )
    feasible = [all(value <= 0 for value in trial["constraints"]) for trial in study["trials"]]
    assert feasible == [True, False, False]
    assert "does not fit" in study["trials"][1]["note"]["body"]


def test_long_notes_are_cut(shown):
    study = shown(failed(0, {"batch_size": 32}, Outcome.ERROR, "ValueError", traceback="x" * 9000))
    assert len(study["trials"][0]["note"]["body"]) == LONGEST


def test_a_constraint_that_a_killed_search_stored_is_stored_again_without_a_word():
    study = optuna.create_study()
    trial = study.ask()
    constrain(trial, "memory", -0.25)
    constrain(trial, "memory", -0.25)
    study.tell(trial, 1.0)
    assert study.trials[0].system_attrs["constraints"] == [-0.25]
