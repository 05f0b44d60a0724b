"""A search as a process that can be killed at any moment, and a look at all that it may leave behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import optuna

from autotune.config import Config
from autotune.documents import from_json
from autotune.records import RunInfo, TrialRecord
from autotune.trials.folder import RunFolder

EXCLUDED = ("compile_mode",)  # a minute a trial
MARK = "AUTOTUNE_FAULT_TEST"
GONE_S = 60.0  # generous: nothing that was killed takes a second, unless the machine is busy
TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.executable, sys.argv[1:])"
)
SCRIPT = """\
import torch
from torch import nn
from torch.utils.data import TensorDataset
import autotune

workload = autotune.Workload(
    model=lambda: nn.Linear(4, 3),
    dataset=lambda: TensorDataset(torch.randn(4096, 4), torch.randint(0, 3, (4096,))),
    loss=nn.CrossEntropyLoss(),
    baseline={"batch_size": 8, "num_workers": 1},
)
"""


class Steered:
    """Runs one search of a tiny workload in a folder of its own, again and again."""

    def __init__(self, home: Path, *arguments: object, script: str = SCRIPT) -> None:
        self.home = home
        self.mark = uuid.uuid4().hex
        self.folder = RunFolder(home / "run")
        self.seen: set[int] = set()
        """every process that was seen to belong to it"""
        for name in ("tmp", "locks", "home"):
            (home / name).mkdir(exist_ok=True)
        (home / "train.py").write_text(script)
        self._arguments = [
            "search", "train.py", "--out", "run", "--trial-budget", "1", "--quick", "--verify", "none",
            "--max-batch", "128", "--exclude", ",".join(EXCLUDED), *arguments,
        ]  # fmt: skip

    @property
    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            MARK: self.mark,
            "TMPDIR": str(self.home / "tmp"),
            "AUTOTUNE_LOCKS": str(self.home / "locks"),
            "HOME": str(self.home / "home"),
            "OMP_NUM_THREADS": "1",
            "COLUMNS": "200",
        }

    def start(self, *more: object, terminal: int | None = None, **others: Any) -> subprocess.Popen[bytes]:
        """Start the search, or go on with it where there is one; in a terminal of its own where one is given."""
        arguments = [*map(str, self._arguments), *map(str, more), *(["--resume"] if self.folder.exists else [])]
        command = [sys.executable, "-m", "autotune", *arguments]
        streams: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        if terminal is not None:
            command = [sys.executable, "-c", TERMINAL, *command]
            streams = {"stdin": terminal, "stdout": terminal, "stderr": terminal}
        options = {"cwd": self.home, "env": self.environment, "start_new_session": True, **streams, **others}
        options.setdefault("preexec_fn", heed_signals)
        return subprocess.Popen(command, **options)

    def finish(self, *more: object) -> str:
        """Go on to the end; return what was printed."""
        process = self.start(*more)
        out = process.communicate(timeout=600)[0].decode()
        assert process.returncode == 0, out
        return out

    def processes(self) -> list[int]:
        """Return the live processes of the search, of all its runs."""
        found = []
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and f"{MARK}={self.mark}".encode() in (entry / "environ").read_bytes():
                    state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
                    if state not in "ZX":
                        found.append(int(entry.name))
            except (OSError, IndexError):
                continue
        self.seen.update(found)
        return found

    def check_nothing_is_left(self) -> None:
        """No process, shared-memory segment, temporary file or lock."""
        deadline = time.monotonic() + GONE_S
        while self.processes() and time.monotonic() < deadline:
            time.sleep(0.1)
        assert not self.processes(), self.processes()
        segments = [name for name in os.listdir("/dev/shm") if any(f"_{pid}_" in name for pid in self.seen)]
        assert not segments, segments
        found = (self.home / "tmp").iterdir()
        temporary = [path.name for path in found if not path.name.startswith("torchinductor")]  # torch's own cache
        assert not temporary, temporary
        assert {path.name for path in (self.home / "locks").iterdir()} <= {"cpu.lock"}  # a file that nobody locks

    def records(self) -> dict[int, TrialRecord]:
        """Return those of the study's trials, by number."""
        beside = ("verification", "numerics")
        return {record.number: record for record in self.folder.records() if record.kind not in beside}

    def trials(self) -> list[optuna.trial.FrozenTrial]:
        study = optuna.load_study(study_name=None, storage=f"sqlite:///{self.folder.study}")
        return study.get_trials()

    def info(self) -> RunInfo:
        return from_json(RunInfo, self.folder.run.read_text())

    def check_the_study(self, before: dict[int, TrialRecord], trials: int) -> None:
        """Nothing recorded is lost, nothing counted twice, nothing is said to run."""
        records = self.records()
        for number, record in before.items():
            assert records[number].measurement == record.measurement
        told = self.trials()
        assert [trial.number for trial in told if trial.state.name == "RUNNING"] == []
        recorded = {number for number, record in records.items() if record.outcome.measured}
        counted = [trial for trial in told if "observation" in trial.user_attrs]  # not the answers to duplicates
        complete = {trial.number for trial in counted if trial.state.name == "COMPLETE"}
        assert complete == recorded, (complete, recorded, [(trial.number, trial.state.name) for trial in told])
        assert len([trial for trial in counted if trial.user_attrs["kind"] != "repeat"]) == trials
        points = Counter(
            Config(**trial.user_attrs["config"]) for trial in counted if trial.user_attrs["kind"] == "trial"
        )
        assert all(count == 1 for count in points.values())
        leftovers = [path.name for path in self.folder.path.rglob("*") if ".tmp" in path.name]
        assert leftovers == []


class Terminal:
    """A terminal that can be closed."""

    def __init__(self) -> None:
        self.master, self.slave = os.openpty()
        self.shown = b""
        self._reader = threading.Thread(target=self._read, daemon=True)

    def started(self) -> None:
        """The process has its end: let go of it, and read what is shown."""
        os.close(self.slave)
        self._reader.start()

    def close(self) -> None:
        os.close(self.master)

    def _read(self) -> None:
        try:
            while data := os.read(self.master, 1 << 16):
                self.shown += data
        except OSError:
            return


def heed_signals() -> None:
    """Take signals as in a shell's foreground: a background job of tests starts with some ignored."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def kill_at(steered: Steered, delay_s: float, how: str, *, records: int = 0) -> dict[int, TrialRecord]:
    """Run the search until so many trials are recorded and for so long, end it in one of four ways.

    Return what is recorded then.
    """
    terminal = Terminal() if how == "terminal" else None
    process = steered.start(terminal=None if terminal is None else terminal.slave)
    if terminal is not None:
        terminal.started()
    wait_for_records(steered, records)
    with suppress(subprocess.TimeoutExpired):
        process.wait(delay_s)
    steered.processes()
    if terminal is not None:
        terminal.close()
    else:
        process.send_signal(getattr(signal, how))
    if process.stdout is not None:
        process.communicate(timeout=GONE_S)
    process.wait(GONE_S)
    steered.check_nothing_is_left()
    return steered.records() if steered.folder.trials.is_dir() else {}


def wait_for_records(steered: Steered, count: int, limit_s: float = 170.0) -> None:
    """Wait until so many trials are recorded."""
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        if len(list(steered.folder.trials.glob("[0-9]*.json"))) >= count:
            return
        time.sleep(0.02)
    raise AssertionError(f"not {count} records within {limit_s:g} s")


def read_json(path: Path) -> Any:
    return json.loads(path.read_text())
