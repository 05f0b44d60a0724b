"""The config of a trial as a file: what the search itself would have written of it, had it not been verified."""

from __future__ import annotations

import pytest

from autotune.config import Config, read_document
from autotune.errors import RunFolderError
from autotune.records import Outcome, Source
from autotune.report.run import read_run
from autotune.report.trial_config import write_config
from autotune.search.run import search_workload
from autotune.search.setup import Wishes
from autotune.trials.folder import RunFolder
from tests.report.factory import ok
from tests.search.simulated import Listener, SimulatedRunner

WISHES = Wishes(trials=10, host_memory_limit_bytes=1 << 30, headroom=0.0)


@pytest.fixture
def searched(tmp_path):
    """A whole search over the make-believe workload; its fifth trial runs out of memory."""
    script, folder = tmp_path / "train.py", RunFolder(tmp_path / "run")
    script.write_text("x = 1\n")
    runner = SimulatedRunner(rule=lambda spec: Outcome.OUT_OF_MEMORY if spec.number == 4 else None)
    search_workload(Source(script=str(script)), folder, WISHES, Listener(), verify="none", runner=runner)
    return read_run(folder)


def written(run, number):
    path = run.folder.path / "mine.toml"
    write_config(run, number, path)
    return read_document(path)


def test_it_is_the_file_that_the_search_writes_of_an_unverified_config(searched):
    best = read_document(searched.folder.best)
    chosen = Config(**best["options"])
    number = next(item.number for item in searched.screening if not Config(**item.config).difference(chosen))
    assert written(searched, number) == best
    assert "not verified" in best["measured"]["status"]
    assert best["measured"]["config_samples_per_s"] > best["measured"]["baseline_samples_per_s"]


def test_every_trial_has_its_config_and_what_is_known_of_it(searched):
    for record in searched.screening:
        document, config = written(searched, record.number), Config(**record.config)
        assert not Config(**document["options"]).difference(config)
        assert "not verified" in document["measured"]["status"]
        assert ("config_samples_per_s" in document["measured"]) is record.outcome.measured
        assert ("numerics" in document) is bool(config.difference(searched.baseline))


def test_maths_that_nobody_looked_at_are_said_to_be_unchecked(save):
    run = save([ok(0, kind="baseline"), ok(1, {"precision": "bf16"}), ok(2, {"num_workers": 2})])
    assert written(run, 1)["numerics"]["status"] == "not checked"
    assert written(run, 2)["numerics"]["status"] == "untouched"


def test_a_damaged_run_is_told(save):
    run = save([ok(0, kind="baseline")], choices={"batch_size": 3})
    with pytest.raises(RunFolderError, match=r"damaged .*run\.json"):
        written(run, 0)
