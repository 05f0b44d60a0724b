"""Full disks, read-only folders, locked storages, clocks that jump, searches that are stopped and go on."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from autotune.errors import RunFolderError
from autotune.records import Source, TrialSpec
from autotune.search import ledger
from autotune.search.run import search_workload
from autotune.search.setup import Wishes
from autotune.trials.folder import RunFolder
from tests.faults.steering import Steered, wait_for_records
from tests.search.simulated import Listener, SimulatedRunner


@pytest.fixture
def search(tmp_path):
    (tmp_path / "train.py").write_text("x = 1\n")

    def run(runner: SimulatedRunner, out: Path = tmp_path / "run", **flow: Any) -> Any:
        wishes = Wishes(trials=6, host_memory_limit_bytes=1 << 30, headroom=0.0)
        source = Source(script=str(tmp_path / "train.py"))
        return search_workload(source, RunFolder(out), wishes, Listener(), verify="none", runner=runner, **flow)

    return run


def mount(*arguments: object) -> None:
    program = shutil.which("mount")
    done = program and subprocess.run([program, *map(str, arguments)], capture_output=True)
    if not done or done.returncode:
        pytest.skip("no right to mount a file system")


@pytest.fixture
def small_disk(tmp_path):
    folder = tmp_path / "disk"
    folder.mkdir()
    mount("-t", "tmpfs", "-o", "size=400k", "tmpfs", folder)
    yield folder
    subprocess.run(["umount", "-l", folder], check=False)


@pytest.fixture
def read_only(tmp_path):
    """A folder that nobody can write to, root neither."""
    folder = tmp_path / "locked"
    folder.mkdir()
    mount("-t", "tmpfs", "-o", "size=400k,ro", "tmpfs", folder)
    yield folder
    subprocess.run(["umount", "-l", folder], check=False)


def test_a_disk_that_fills_up_ends_in_one_message_and_the_search_goes_on_when_there_is_room(search, small_disk):
    class Filling(SimulatedRunner):
        def run(self, spec: TrialSpec, *rest: Any) -> Any:
            record = super().run(spec, *rest)
            if spec.number == 3:
                with (small_disk / "ballast").open("wb", buffering=0) as ballast:
                    try:
                        while ballast.write(b"x" * 512):
                            pass
                    except OSError:
                        pass
            return record

    with pytest.raises(RunFolderError, match=r"full|No space left") as full:
        search(Filling(), out=small_disk / "run")
    assert "Traceback" not in str(full.value)
    recorded = {record.number: record for record in RunFolder(small_disk / "run").records()}
    assert set(recorded) >= {0, 1, 2, 3}
    (small_disk / "ballast").unlink()
    result = search(SimulatedRunner(), out=small_disk / "run", resume=True)
    assert result.best is not None
    again = {record.number: record for record in result.folder.records()}
    assert {number: again[number] for number in recorded} == recorded


def test_a_read_only_folder_is_one_message(search, read_only):
    with pytest.raises(RunFolderError, match=r"cannot write to the run folder .*Read-only"):
        search(SimulatedRunner(), out=read_only / "run")


def lock_the_study(folder: RunFolder, released: threading.Event) -> None:
    connection = sqlite3.connect(folder.study, isolation_level=None)
    connection.execute("BEGIN EXCLUSIVE")
    released.wait(60)
    connection.execute("ROLLBACK")
    connection.close()


class Locking(SimulatedRunner):
    """Somebody else takes the study's file while the third trial runs, and keeps it for so long after it."""

    def __init__(self, folder: RunFolder, kept_s: float) -> None:
        super().__init__()
        self.folder, self.kept_s = folder, kept_s
        self.released = threading.Event()
        self.locker = threading.Thread(target=lock_the_study, args=(folder, self.released))

    def run(self, spec: TrialSpec, *rest: Any) -> Any:
        record = super().run(spec, *rest)
        if spec.number == 2 and spec.kind != "probe":
            self.locker.start()
            locked = time.monotonic() + 30
            while time.monotonic() < locked:
                try:
                    sqlite3.connect(self.folder.study, timeout=0).execute("SELECT 1 FROM trials").close()
                except sqlite3.OperationalError:
                    break
            ending = threading.Timer(self.kept_s, self.released.set)
            ending.daemon = True
            ending.start()
        return record


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_study_that_is_locked_for_a_while_is_waited_for(search, tmp_path):
    runner = Locking(RunFolder(tmp_path / "run"), 6.5)  # longer than the driver waits by itself
    assert search(runner).best is not None
    runner.locker.join()
    assert len(runner.configs) == 6


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_study_that_stays_locked_is_one_message_and_loses_no_record(search, tmp_path, monkeypatch):
    monkeypatch.setattr(ledger, "LOCKED_S", 0.3)
    folder = RunFolder(tmp_path / "run")
    runner = Locking(folder, 1e5)
    with pytest.raises(RunFolderError, match="database is locked") as locked:
        search(runner)
    assert "--resume" in locked.value.hint
    runner.released.set()
    runner.locker.join()
    assert {record.number for record in folder.records()} == {0, 1, 2}
    rest = SimulatedRunner()
    search(rest, resume=True)
    assert rest.configs == undisturbed_runner(search, tmp_path).configs[3:]


def undisturbed_runner(search: Any, tmp_path: Path) -> SimulatedRunner:
    """Return the runner of a search that nothing disturbed."""
    undisturbed = SimulatedRunner()
    search(undisturbed, out=tmp_path / "undisturbed")
    return undisturbed


def test_a_clock_that_jumps_changes_nothing(search, tmp_path, monkeypatch):
    """The wall clock goes back a year and forward a day, by turns: only dates show it."""
    undisturbed = undisturbed_runner(search, tmp_path)
    real, jumps = time.time, iter(range(10**9))
    monkeypatch.setattr(time, "time", lambda: real() + (-3e7 if next(jumps) % 2 else 9e4))
    runner = SimulatedRunner()
    result = search(runner)
    assert runner.configs == undisturbed.configs
    assert result.best is not None
    assert all(record.wall_s >= 0 for record in result.folder.records())


@pytest.mark.timeout(400)
def test_a_search_that_is_stopped_and_continued_loses_nothing(tmp_path):
    """SIGSTOP while a trial runs: the trial runs on and is taken up when the search goes on."""
    steered = Steered(tmp_path, "--trials", 3)
    process = steered.start()
    wait_for_records(steered, 1)
    process.send_signal(signal.SIGSTOP)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(3)
    os.kill(process.pid, signal.SIGCONT)
    out = process.communicate(timeout=300)[0].decode()
    assert process.returncode == 0, out
    steered.check_nothing_is_left()
    steered.check_the_study({}, 3)
