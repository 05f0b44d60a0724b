"""What the models believe, asked of a finished search."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from autotune.errors import RunFolderError
from autotune.options import OPTIONS
from autotune.records import Outcome, Source, TrialSpec
from autotune.report.explain import effect_words, print_explanation
from autotune.report.run import read_run
from autotune.search.explain import Explanation, explain
from autotune.search.info import space_of
from autotune.search.run import search_workload
from autotune.search.setup import Wishes
from autotune.trials.folder import RunFolder
from tests.search.simulated import FACTS, Listener, SimulatedRunner

GIB = 1 << 30


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    root = tmp_path_factory.mktemp("explain")
    script = root / "train.py"
    script.write_text("x = 1\n")
    folder = RunFolder(root / "run")
    wishes = Wishes(trials=12, host_memory_limit_bytes=GIB, headroom=0.0)
    search_workload(Source(script=str(script)), folder, wishes, Listener(), verify="none", runner=SimulatedRunner())
    return folder


def test_the_space_is_rebuilt_from_the_run_folder(folder: RunFolder) -> None:
    info = read_run(folder).info
    space = space_of(info)
    assert {name: list(values) for name, values in space.choices.items()} == dict(info.choices)
    assert dict(space.baseline) == dict(info.baseline)


def test_the_effects_of_a_clean_workload_are_seen(folder: RunFolder) -> None:
    run = read_run(folder)
    found = explain(run.info, run.screening)
    ratio = {(item.option, item.value): item.ratio for item in found.effects}
    assert found.best_measured.config["precision"] == "bf16"
    assert 1.3 < ratio["precision", "fp32"] < 2.1  # 1 / 0.6 in truth
    assert all(item.ratio == 1.0 for item in found.effects if item.in_best)


def test_the_memory_line_agrees_with_what_was_measured(folder: RunFolder) -> None:
    run = read_run(folder)
    found = explain(run.info, run.screening)
    seen = [item for item in found.memory if item.measured_bytes]
    assert seen
    assert all(abs(item.peak_bytes / item.measured_bytes - 1) < 0.1 for item in seen if item.measured_bytes)
    chances = [item.fits for item in found.memory]
    assert chances == sorted(chances, reverse=True)


@pytest.mark.parametrize("width", [50, 100])
def test_it_is_printed_as_belief(folder: RunFolder, width: int) -> None:
    run = read_run(folder)
    found, out = explain(run.info, run.screening), io.StringIO()
    named = "all but encoder.*:Dropout2d decoder.*:Dropout2d head.*:Dropout2d"
    long = dataclasses.replace(found.effects[0], option="inplace_activations", value=named, ratio=1.5, in_best=False)
    print_explanation(Console(file=out, width=width), run, dataclasses.replace(found, effects=[*found.effects, long]))
    text = out.getvalue()
    assert "not measurements" in text
    assert "in the best config" in text
    assert effect_words(long) in text  # in one line, however long a value is
    assert "…" not in text


def test_nothing_measured_is_an_error(folder: RunFolder) -> None:
    run = read_run(folder)
    with pytest.raises(RunFolderError, match="nothing was measured"):
        explain(run.info, [])


def explained(path: Path, runner: SimulatedRunner, **options: Any) -> Explanation:
    script = path / "train.py"
    script.write_text("x = 1\n")
    wishes = Wishes(trials=10, host_memory_limit_bytes=GIB, headroom=0.0, **options)
    folder = RunFolder(path / "run")
    search_workload(Source(script=str(script)), folder, wishes, Listener(), verify="none", runner=runner)
    run = read_run(folder)
    return explain(run.info, run.screening)


def test_what_failed_whenever_it_was_tried_is_not_expected_to_be_best(tmp_path: Path) -> None:
    def rule(spec: TrialSpec) -> Outcome | None:
        return Outcome.ERROR if spec.config.get("precision") == "bf16" else None

    found = explained(tmp_path, SimulatedRunner(rule=rule))
    assert found.best_expected is not None
    assert found.best_expected.config["precision"] == "fp32"


def test_a_planned_training_is_explained_with_its_start(tmp_path: Path) -> None:
    """What compiles starts too late for so short a training, however fast it is then."""

    def start(config: Mapping[str, Any]) -> float:
        return 60.0 if config.get("compile_mode") == "default" else 1.0

    runner = SimulatedRunner(facts=dataclasses.replace(FACTS, compile_refused=None), start=start)
    found = explained(tmp_path, runner, steps=100, restricted={"compile_mode": ["off", "default"]})
    ratio = {(item.option, item.value): item.ratio for item in found.effects}
    assert found.best_measured.config["compile_mode"] == "off"
    assert ratio["compile_mode", "default"] > 5
    assert found.best_expected is not None
    assert found.best_expected.config["compile_mode"] == "off"


def test_what_cannot_run_together_is_not_expected_to_be_best(tmp_path: Path) -> None:
    """Each helps by itself, so that both would be best."""
    modes = {"deterministic": [False, True], "compile_mode": ["off", "max-autotune-no-cudagraphs"]}

    def seconds(config: Mapping[str, Any]) -> float:
        return 1e-3 * 0.5 ** sum(config.get(name) == values[1] for name, values in modes.items())

    runner = SimulatedRunner(facts=dataclasses.replace(FACTS, compile_refused=None), seconds=seconds)
    excluded = sorted(OPTIONS.keys() - modes.keys() - {"batch_size"})
    found = explained(tmp_path, runner, restricted={"batch_size": [32, 64, 128], **modes}, excluded=excluded)
    assert found.best_measured.sample_s < 7e-4
    expected = found.best_expected
    assert expected is None or not all(expected.config[name] == values[1] for name, values in modes.items())
