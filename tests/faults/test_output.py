"""Standard output that fails: a full disk, a reader that is gone. What was measured is not lost for it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Ended

Write = Callable[..., Path]
Process = Callable[..., Ended]

SCRIPT = """
def build_model():
    return nn.Linear(4, 3)
def build_dataset():
    return data()
workload = autotune.Workload(
    model=build_model, dataset=build_dataset, loss=nn.functional.cross_entropy, baseline={"batch_size": 8}
)
"""
SEARCH = "--trials 2 --trial-budget 1 --verify none --no-lock --out run".split()  # noqa: SIM905


def through_shell(command: str) -> tuple[str, ...]:
    """Return a prefix that runs what follows it as `"$@"` of a shell's command."""
    return ("bash", "-c", f"set -o pipefail; {command}", "bash")


@pytest.mark.parametrize(("where", "status"), [('"$@" > /dev/full', 1), ('"$@" | head -n 1', 0)])
def test_a_search_outlives_its_output(write: Write, process: Process, tmp_path: Path, where: str, status: int) -> None:
    script = write(SCRIPT)
    ended = process("search", script, *SEARCH, prefix=through_shell(where))
    assert ended.status == status, ended.err
    assert "standard output could not be written to" in ended.err
    assert "the search went on, see run" in ended.err
    assert "Traceback" not in ended.err
    assert "Exception ignored" not in ended.err
    assert (tmp_path / "run/best.toml").exists()
    assert (tmp_path / "run/report.html").exists()
    shown = process("results", "run", prefix=through_shell('"$@" > /dev/full'))
    shown.check_clear()
    assert shown.status == 1
    assert "No space left on device" in shown.message


def test_what_is_written_before_and_after_a_failure(tmp_path: Path) -> None:
    code = """
import os, sys
from autotune.cli.output import lost_output, outlive_output
outlive_output()
print("before", flush=True)
assert lost_output() is None
os.dup2(os.open("/dev/full", os.O_WRONLY), 1)
for _ in range(3):
    print("x" * 100_000)
sys.stderr.write(str(lost_output()))
"""
    ended: Any = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (0, "before\n")
    assert ended.stderr == "[Errno 28] No space left on device"
