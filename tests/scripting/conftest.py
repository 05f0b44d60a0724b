"""Small scripts as people have them, run as they are: probed, measured, and by themselves."""

from __future__ import annotations

import contextlib
import io
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest
import torch
from torch import nn

from tests.workload.conftest import real, runner  # noqa: F401

PROGRAMS = Path(__file__).parent / "programs"


@pytest.fixture
def alone(monkeypatch):
    """Run a script by itself, without anything of ours; return the losses that it prints."""

    def run(script, *arguments):
        monkeypatch.setattr(sys, "argv", [str(script), *arguments])
        out, threads = io.StringIO(), torch.get_num_threads()
        torch.set_num_threads(1)
        with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
            runpy.run_path(str(script), run_name="__main__")
        torch.set_num_threads(threads)
        return losses_in(out.getvalue())

    return run


@pytest.fixture
def write(tmp_path):
    """Write a script; return its path."""

    def write_script(text, name="train.py"):
        path = tmp_path / name
        path.write_text(dedent(text))
        return path

    return write_script


def losses_in(text):
    """Return the losses that a script printed, bit for bit."""
    return [float.fromhex(line.split()[1]) for line in text.splitlines() if line.startswith("loss ")]


@pytest.fixture(autouse=True)
def module_call() -> Iterator[None]:
    """See that no patch of a forward outlives its test: it would be in every later one."""
    before = nn.Module.__call__
    yield
    assert nn.Module.__call__ is before
