"""results/search: its scripts run, on the figures that stand beside them."""

from __future__ import annotations

import csv
import importlib
import json
import shutil
import sys
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).parents[2] / "results/search"


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch):
    """Return a script of a study as a module, with those beside it; none of them stays behind."""

    def script(study: str, name: str) -> ModuleType:
        folder = FOLDER / study
        monkeypatch.syspath_prepend(str(folder))
        for path in folder.glob("*.py"):
            monkeypatch.delitem(sys.modules, path.stem, raising=False)
        return importlib.import_module(name)

    yield script
    for path in FOLDER.glob("*/*.py"):
        sys.modules.pop(path.stem, None)


def test_a_search_over_a_measured_table_finds_its_best(load, tmp_path, monkeypatch):
    replay = load("oracle", "replay")
    command = ["replay.py", "--examples", "digits_cnn", "--seeds", "1", "--samplers", "structured", "random"]
    monkeypatch.setattr(sys, "argv", [*command, "--out", str(tmp_path)])
    replay.main()
    lines = csv.DictReader((tmp_path / "digits_cnn.regret.csv").read_text().splitlines())
    first = [line for line in lines if int(line["trial"]) <= 20 and not line["limit"]]
    at_20 = {line["sampler"]: float(line["regret"]) for line in first}  # a search that stopped keeps its answer
    assert at_20["structured"] <= load("oracle", "table").Table(FOLDER / "oracle", "digits_cnn").tolerance(replay.NEAR)
    assert at_20["random"] > at_20["structured"]
    text = (tmp_path / "digits_cnn.md").read_text()
    assert "| structured |" in text
    assert "| random |" in text
    assert (tmp_path / "digits_cnn.png").stat().st_size > 10_000
    monkeypatch.setattr(sys, "argv", [*command[:-1], "--out", str(tmp_path)])
    load("oracle", "replay").main()
    again = (tmp_path / "digits_cnn.md").read_text()
    assert [line for line in again.splitlines() if "random" in line] == [
        line for line in text.splitlines() if "random" in line
    ]


def test_the_table_of_the_peers_is_what_its_script_makes_of_their_answers(load, tmp_path):
    peers = FOLDER / "peers"
    for path in peers.glob("*.json"):
        shutil.copy(path, tmp_path)
    load("peers", "report").write(tmp_path)
    for name in ("peers.md", "peers.csv"):
        assert (tmp_path / name).read_text() == (peers / name).read_text()


def test_every_live_claim_counts_once_and_a_study_that_was_stopped_goes_on(load, tmp_path, monkeypatch, capsys):
    live = load("aa", "live")
    asked = []

    def claim(example: str, seed: int) -> dict[str, object]:
        asked.append((example, seed))
        looks = [{"pairs": 6, "speedup": 1.01, "lower": 0.97, "upper": 1.05}]
        verdict = "faster" if seed else "same"
        return {"example": example, "seed": seed, "verdict": verdict, "looks": looks, "load": 0.1}

    monkeypatch.setattr(live, "claim", claim)
    for claims in ("1", "2"):
        monkeypatch.setattr(sys, "argv", ["live.py", "--claims", claims, "--out", str(tmp_path)])
        live.main()
    assert asked == [(example, seed) for seed in (0, 1) for example in live.EXAMPLES]
    assert "6 claims, 3 of them false" in (tmp_path / "live.md").read_text()
    assert len([json.loads(line) for line in (tmp_path / "live.jsonl").read_text().splitlines()]) == 6
