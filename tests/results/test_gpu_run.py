"""results/gpu/run.sh: its parts on the CPU, and what becomes of one that fails or does not end."""

from __future__ import annotations

import importlib
import os
import shutil
import signal
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import psutil
import pytest

FOLDER = Path(__file__).parents[2] / "results/gpu"


@pytest.fixture
def gpu_run(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(FOLDER))
    for name in ("run", "page", "parts", "tests_part"):
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


def test_a_folder_that_cannot_be_written_is_told_with_the_way_out(tmp_path):
    (tmp_path / "file").write_text("")
    done = subprocess.run(
        ["bash", str(FOLDER / "run.sh"), "--dry-run", "--out", str(tmp_path / "file/out")],
        capture_output=True, text=True, env={**os.environ, "PYTHON": sys.executable},
    )  # fmt: skip
    assert done.returncode == 2
    assert "Name another folder with --out" in done.stdout
    assert not done.stderr


def test_one_who_ends_it_from_outside_gets_the_summary_and_no_part_goes_on(tmp_path):
    command = ["bash", str(FOLDER / "run.sh"), "--dry-run", "--only", "search", "memory", "--out", str(tmp_path)]
    environment = {**os.environ, "PYTHON": sys.executable}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    assert process.stdout.readline().startswith("search: ")
    log = tmp_path / "search/log.txt"
    while not log.exists() or not log.stat().st_size:  # the part runs
        time.sleep(0.02)
    parts = psutil.Process(process.pid).children(recursive=True)
    process.terminate()
    told, _ = process.communicate()
    assert process.returncode == 1
    assert "search interrupted" in told
    assert told.splitlines()[-1] == f"report: {tmp_path / 'index.html'}"
    assert parts
    assert not [part for part in parts if part.is_running() and part.status() != psutil.STATUS_ZOMBIE]


@pytest.fixture
def started_in_the_background() -> Iterator[None]:
    """Ignore interrupts, as what a shell starts in the background does."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.timeout(40)
def test_tests_whose_time_is_up_are_interrupted_and_told_as_that(gpu_run, started_in_the_background):
    part = importlib.import_module("tests_part")
    assert part.run(["-c", "raise SystemExit(3)"], 60) == (3, True)
    assert part.run(["-c", "import time; time.sleep(60)"], 1)[1] is False


def test_all_tests_that_need_a_card_are_run_on_it(gpu_run):
    marked = {
        path.stem for path in (FOLDER.parents[1] / "tests/gpu").glob("test_*.py") if "pytestmark" in path.read_text()
    }
    assert marked == {f"test_{name}" for name in importlib.import_module("tests_part").FILES}


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
