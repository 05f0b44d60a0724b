"""results/gpu/run.sh: its parts on the CPU, and what becomes of one that fails or does not end."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
from argparse import Namespace
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).parents[2] / "results/gpu"


@pytest.fixture
def gpu_run(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(FOLDER))
    for name in ("run", "page", "parts"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return importlib.import_module("run")


def test_a_part_that_fails_or_does_not_end_stops_no_other(gpu_run, tmp_path, monkeypatch):
    programs = tmp_path / "programs"
    programs.mkdir()
    body = "import pathlib, sys, time\nout = pathlib.Path(sys.argv[2])\n"
    (programs / "good_part.py").write_text(body + "(out / 'summary.txt').write_text('good: 1 <b>\\n')\n")
    (programs / "bad_part.py").write_text(body + "raise ValueError('no')\n")
    (programs / "slow_part.py").write_text(body + "(out / 't.csv').write_text('a,b\\n1,2\\n')\ntime.sleep(60)\n")
    monkeypatch.setattr(gpu_run, "FOLDER", programs)
    monkeypatch.setattr(gpu_run, "GRACE_S", 1.0)
    monkeypatch.setattr(gpu_run, "NAMES", ("bad", "slow", "good"))
    parts = [gpu_run.Part(name, 60, seconds, "what") for name, seconds in (("bad", 60), ("slow", 2), ("good", 60))]
    out = tmp_path / "out"
    out.mkdir()
    args = Namespace(dry_run=True, workloads=[], times=1.0)
    ended = {part.name: gpu_run.run(part, out, args) for part in parts}
    assert ended == {"bad": "failed (status 1)", "slow": "out of time", "good": "done"}
    assert "ValueError: no" in (out / "bad/log.txt").read_text()
    lines = gpu_run.summary(out, "a card", ended, 9).splitlines()
    assert lines[0] == "autotune on a card: bad failed (status 1), slow out of time, good done; 9 s"
    assert [line.partition(":")[0] for line in lines[1:]] == ["bad", "slow", "good", "report"]
    gpu_run.write_page(out, "a card", parts)
    page = (out / "index.html").read_text()
    assert "good: 1 &lt;b&gt;" in page
    assert "<td>2</td>" in page


def test_a_long_summary_ends_at_thirty_lines(gpu_run, tmp_path):
    (tmp_path / "search").mkdir()
    (tmp_path / "search/summary.txt").write_text("line\n" * 50)
    lines = gpu_run.summary(tmp_path, "a card", {"search": "done"}, 1).splitlines()
    assert len(lines) == 30
    assert lines[-2] == "... 23 more lines in summary.txt of each part"


def test_a_machine_without_a_card_is_told_what_to_do(tmp_path):
    done = subprocess.run(
        ["bash", str(FOLDER / "run.sh"), "--only", "oracle", "--out", str(tmp_path)],
        capture_output=True, text=True, env={**os.environ, "PYTHON": sys.executable, "CUDA_VISIBLE_DEVICES": ""},
    )  # fmt: skip
    assert done.returncode == 2
    assert "--dry-run" in done.stdout


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_the_dry_run_does_all_of_it(tmp_path):
    done = subprocess.run(
        ["bash", str(FOLDER / "run.sh"), "--dry-run", "--out", str(tmp_path), "--times", "3"],
        capture_output=True, text=True, env={**os.environ, "PYTHON": sys.executable},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    for part in ("tests", "search", "agreement", "memory", "oracle", "rival"):
        assert (tmp_path / part / "summary.txt").read_text().startswith(part)
    assert len((tmp_path / "summary.txt").read_text().splitlines()) <= 30
    page = (tmp_path / "index.html").read_text()
    assert 'href="search/char_transformer/report.html"' in page
