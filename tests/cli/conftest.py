"""The command line as people meet it: as a process of its own, or in this one on a fork server that all tests share."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

import pytest

import autotune
from autotune import cli
from autotune.trials.runner import ForkServerRunner

PACKAGE = str(Path(autotune.__file__).parent)
HEAD = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset
import autotune

def data(length=64):
    return TensorDataset(torch.randn(length, 4), torch.randint(0, 3, (length,)))

"""


@dataclass
class Ended:
    """What a command left behind."""

    status: int
    out: str
    err: str

    @property
    def message(self) -> str:
        """What follows "error: ", with its hint."""
        found = re.split(r"^error: ", self.err, flags=re.MULTILINE)
        assert len(found) == 2, self.err
        return found[1]

    @property
    def traceback(self) -> str:
        return re.split(r"^error: ", self.err, flags=re.MULTILINE)[0]

    def check_clear(self) -> None:
        """One message on standard error, and no frame of ours."""
        assert self.message.strip()
        assert f'File "{PACKAGE}' not in self.err
        assert "Traceback" not in self.message
        assert "File " not in self.out


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        runner = ForkServerRunner(tmp_path_factory.mktemp("server") / "server.log")
        yield runner
        runner.close()


class Kept:
    """A runner that outlives the command it is lent to."""

    def __init__(self, runner):
        self.run = runner.run

    def close(self):
        pass


@pytest.fixture
def write(tmp_path):
    """Write a script; return its path. The usual imports come first."""

    def write_script(text, name="train.py", head=HEAD):
        path = tmp_path / name
        path.write_text(head + dedent(text))
        return path

    return write_script


@pytest.fixture
def run(server, tmp_path, monkeypatch, capfd):
    """Run a command in this process, from a folder of its own."""

    def command(*arguments):
        with monkeypatch.context() as patch:
            for module in ("autotune.trials.runner", "autotune.search.run"):
                patch.setattr(f"{module}.ForkServerRunner", lambda log, **_: Kept(server))
            patch.setattr("autotune.cli.search.end_like_ctrl_c", lambda: None)
            patch.setattr(sys, "argv", ["autotune", *map(str, arguments)])
            patch.chdir(tmp_path)
            patch.setenv("COLUMNS", "200")
            with pytest.raises(SystemExit) as ended:
                cli.main()
        out, err = capfd.readouterr()
        return Ended(int(ended.value.code or 0), out, err)

    return command


@pytest.fixture
def process(tmp_path):
    """Run a command as people do."""

    def command(*arguments, cwd=tmp_path, prefix=(), **environment):
        ended = subprocess.run(
            [*prefix, sys.executable, "-m", "autotune", *map(str, arguments)],
            cwd=cwd,
            env={**os.environ, "COLUMNS": "200", "OMP_NUM_THREADS": "1", **environment},
            capture_output=True,
            text=True,
            timeout=120,
            stdin=subprocess.DEVNULL,
        )
        return Ended(ended.returncode, ended.stdout, ended.stderr)

    return command
