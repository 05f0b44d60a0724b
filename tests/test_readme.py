"""Every command that the README shows: what stands in a block of its own is run, the rest must be one that there is."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import typer

from autotune.cli import app

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
SCRIPT = """
import autotune, torch
from torch import nn
from torch.utils.data import TensorDataset

workload = autotune.Workload(
    model=lambda: nn.Linear(4, 3),
    dataset=lambda: TensorDataset(torch.randn(2000, 4), torch.randint(0, 3, (2000,))),
    loss=nn.CrossEntropyLoss(),
    optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=1e-3),
    baseline={"batch_size": 64},
)
"""
SMALL = ["--trials", "3", "--trial-budget", "1", "--verify", "none", "--max-batch", "64", "--no-lock", "--quick"]
"""comes after the arguments of each search, which it overrides"""


def blocks():
    """Return the commands of the README's blocks, comments left out."""
    return [
        shlex.split(part, comments=True)
        for block in re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL)
        for line in block.splitlines()
        for part in line.split(" && ")
        if part.strip()
    ]


def in_text():
    """Return the commands that stand within sentences, each once."""
    prose = re.sub(r"```.*?```", "", TEXT, flags=re.DOTALL)
    found = re.findall(r"`(autotune [a-z][^`]*)`", prose)
    return list(dict.fromkeys(" ".join(command.split()) for command in found))


def ours():
    return [words for words in blocks() if Path(words[0]).name == "autotune"]


def check_usage(words):
    """The command exists, and so does every option that it is given."""
    commands = typer.main.get_command(app).commands
    name, *rest = words
    assert name in commands, f"autotune {name}"
    known = {flag for parameter in commands[name].params for flag in parameter.opts}
    ended = rest.index("--") if "--" in rest else len(rest)
    for flag in (word for word in rest[:ended] if word.startswith("-")):
        assert flag.partition("=")[0] in known, f"autotune {name} has no {flag}"


@pytest.mark.parametrize("command", in_text())
def test_commands_in_sentences_exist(command):
    check_usage(shlex.split(command)[1:])


@pytest.mark.parametrize("words", ours(), ids=" ".join)
def test_commands_in_blocks_exist(words):
    check_usage(words[1:])


def test_there_are_commands_to_check():
    assert len(ours()) >= 10
    assert len(in_text()) >= 10


def test_what_is_installed_is_there():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    for words in blocks():
        if Path(words[0]).name == "pip":
            assert (ROOT / words[words.index("-c") + 1]).exists()
            assert words[-1].removeprefix(".[").removesuffix("]") in extras


def test_scripts_that_it_names_are_there():
    for path in re.findall(r"\b((?:examples|results|tests)/[\w/]+\.(?:py|md))\b", TEXT):
        assert (ROOT / path).exists(), path


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_blocks_run_as_they_stand(tmp_path):
    """In the README's order, in a fresh folder; only searches are made smaller."""
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    for words in ours():
        small = SMALL if words[1] == "search" else []
        ended = subprocess.run(
            [sys.executable, "-m", "autotune", *words[1:], *small],
            cwd=tmp_path,
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=600,
            stdin=subprocess.DEVNULL,
        )
        assert ended.returncode == 0, f"{' '.join(words)}\n{ended.stdout}\n{ended.stderr}"
        assert ended.stdout.strip()
