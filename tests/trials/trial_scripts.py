"""What tests of trials share: small scripts, specs over them, a look at what is left of a session."""

from __future__ import annotations

import os
import textwrap
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from autotune.records import Limits, Source, TrialRecord, TrialSpec
from autotune.trials.runner import Runner

GIB = 1 << 30

HEAD = """\
import os, signal, sys, threading, time
from pathlib import Path
import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import Dataset, get_worker_info
from autotune import Workload

HERE = Path(__file__).parent
(HERE / "pid").write_text(str(os.getpid()))


class Numbers(Dataset):
    def __init__(self, length=4096):
        self.length = length
    def __len__(self):
        return self.length
    def __getitem__(self, index):
        self.load(index)
        return torch.full((4,), float(index % 7)), index % 3
    def load(self, index):
        pass


def build_model():
    return nn.Linear(4, 3)

def build_dataset():
    return Numbers()

def build_optimizer(parameters):
    return torch.optim.SGD(parameters, lr=0.01)

def before_step():
    pass

def step(model, batch):
    before_step()
    return cross_entropy(model(batch[0]), batch[1])

drop_last = False
"""

TAIL = """
workload = Workload(
    model=build_model, dataset=build_dataset, training_step=step, optimizer=build_optimizer, drop_last=drop_last
)
"""


@dataclass
class Ran:
    """A trial that has ended, and what it left."""

    record: TrialRecord
    log: Path
    pid: int
    messages: list[dict[str, Any]]

    @property
    def printed(self) -> str:
        return self.log.read_text(errors="replace")


Trial = Callable[..., Ran]


def write_script(folder: Path, body: str) -> Path:
    script = folder / "script.py"
    script.write_text(HEAD + textwrap.dedent(body) + TAIL)
    return script


def make_spec(folder: Path, body: str, limits: dict[str, Any] | None = None, **changes: Any) -> TrialSpec:
    parts: dict[str, Any] = {
        "number": 1,
        "config": {"batch_size": 8},
        "baseline": {},
        "source": Source(script=str(write_script(folder, body))),
        "device": "cpu",
        "limits": Limits(**{"host_bytes": 8 * GIB, "timeout_s": 60.0, "budget_s": 2.0, **(limits or {})}),
        "record_path": str(folder / "record.json"),
        "dataset_length": 4096,
        "target": 0.5,
    }
    return TrialSpec(**{**parts, **changes})


def trial_with(runner: Runner, folder: Path) -> Trial:
    """Return a function that runs one trial of a script whose parts its argument replaces."""

    def run(body: str = "", report: Any = None, **changes: Any) -> Ran:
        spec, log = make_spec(folder, body, **changes), folder / "log"
        messages: list[dict[str, Any]] = []
        record = runner.run(spec, log, report or messages.append)
        pid = folder / "pid"
        return Ran(record, log, int(pid.read_text()) if pid.exists() else 0, messages)

    return run


def session_of(leader: int) -> list[int]:
    """Return the live processes of the session that `leader` began."""
    found = []
    for process in psutil.process_iter(["pid", "status"]):
        try:
            if os.getsid(process.pid) == leader and process.info["status"] != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
        except (ProcessLookupError, PermissionError):
            continue
    return found


def wait_until(condition: Callable[[], Any], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return bool(condition())
