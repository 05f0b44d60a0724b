"""A whole search of a script as it is: nothing is named but the script and its arguments."""

from __future__ import annotations

import tomllib

import pytest

from autotune.applying import apply_line
from autotune.cli.naming import Named
from autotune.cli.parsing import source_of
from autotune.cli.verify import _source
from autotune.search.events import Events
from autotune.search.run import search_workload
from autotune.search.setup import Wishes
from autotune.trials.folder import RunFolder
from tests.scripting.conftest import PROGRAMS


class Silent(Events):
    """Nobody listens."""


@pytest.mark.timeout(400)  # repeats where other programs disturb it
def test_a_search_needs_the_script_and_its_arguments_alone(runner, tmp_path):
    script = PROGRAMS / "digits.py"
    source = source_of(script, ["--epochs", "4"], Named())
    assert source.unmodified
    wishes = Wishes(
        trials=3,
        fixed={"precision": "fp32", "num_threads": 0},
        restricted={"batch_size": [16, 48]},
        target=0.5,
        trial_budget_s=1.0,
    )
    folder = RunFolder(tmp_path / "run")
    result = search_workload(source, folder, wishes, Silent(), verify="none", runner=runner)
    assert result.prepared.space.baseline["batch_size"] == 16
    assert all(record.outcome.measured for record in folder.records()), list(folder.records())
    text = folder.best.read_text()
    made_for = tomllib.loads(text)["workload"]
    assert made_for["unmodified"] is True
    assert made_for["training_loader"] == 0
    assert "autotune run" in text.splitlines()[1]
    assert _source(made_for, None, folder.best) == source  # verify runs it in the same way
    assert apply_line(folder.best, source).endswith("best.toml -- --epochs 4")
