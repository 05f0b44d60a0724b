"""One search at a time on a device and in a run folder."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from autotune.errors import DeviceBusy, RunFolderError
from autotune.machine import Gpu
from autotune.records import Source
from autotune.search.run import search_workload
from autotune.search.setup import Wishes
from autotune.trials.folder import RunFolder
from autotune.trials.lock import DeviceLock, DeviceLocks, FolderLock, lock_name
from tests.search.simulated import Listener, SimulatedRunner

HOLD = """
import sys, pathlib, time
from autotune.trials.lock import DeviceLock
DeviceLock("cpu", "train.py", pathlib.Path(sys.argv[1])).acquire(print)
print("held", flush=True)
sys.stdin.read()
"""
CARDS = [
    Gpu(index=index, name="card", total_bytes=1, free_bytes=1, driver="1", processes=0, uuid=f"GPU-{index}a")
    for index in range(2)
]


@pytest.fixture
def holder(tmp_path):
    """Another process that holds the CPU."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "held\n"
    with process:
        yield process
        process.kill()


def test_the_second_is_refused_and_told_who_measures(holder, tmp_path):
    lock = DeviceLock("cpu", "other.py", tmp_path)
    with pytest.raises(DeviceBusy) as refused:
        lock.acquire(print)
    assert re.search(rf"process {holder.pid} \(train.py, since \d{{4}}-\d\d-\d\d \d\d:\d\d\)", refused.value.message)
    assert "--wait" in refused.value.hint
    assert "--no-lock" in refused.value.hint


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_a_holder_that_dies_keeps_nothing(holder, tmp_path, end):
    holder.send_signal(end)
    holder.wait()
    lock = DeviceLock("cpu", "other.py", tmp_path)
    lock.acquire(print)
    lock.release()
    assert list(tmp_path.iterdir()) == []


def test_waiting_says_for_whom_and_ends_with_the_holder(holder, tmp_path):
    told: list[str] = []

    def tell(text: str) -> None:
        told.append(text)
        holder.stdin.close()  # it has been told: the holder may go

    lock = DeviceLock("cpu", "other.py", tmp_path)
    lock.acquire(tell, wait=True)
    lock.release()
    assert len(told) == 1
    assert f"process {holder.pid}" in told[0]


def test_of_many_at_once_one_holds_at_a_time(tmp_path):
    """Holders remove the file as they go: nobody may hold one that has gone."""
    inside, most, guard = 0, 0, threading.Lock()

    def work() -> None:
        nonlocal inside, most
        for _ in range(5):
            lock = DeviceLock("cpu", "x", tmp_path)
            while True:
                try:
                    lock.acquire(print)
                    break
                except DeviceBusy:
                    continue
            with guard:
                inside += 1
                most = max(most, inside)
            with guard:
                inside -= 1
            lock.release()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1


def test_a_folder_that_is_not_ours_or_cannot_be_made_means_no_lock_and_says_so(tmp_path):
    told: list[str] = []
    (tmp_path / "file").write_text("")
    DeviceLock("cpu", "x", tmp_path / "file").acquire(told.append)
    (tmp_path / "link").symlink_to(tmp_path)
    DeviceLock("cpu", "x", tmp_path / "link").acquire(told.append)
    assert len(told) == 2
    assert all("no lock on cpu" in text for text in told)


@pytest.mark.parametrize("text", ["", "[]", "\0" * 5000, '{"pid": 1e999, "script": 3, "at": "x"}', "[" * 4000])
def test_what_stands_in_the_file_is_data(tmp_path, text):
    lock = DeviceLock("cpu", "x", tmp_path)
    lock.acquire(print)
    lock.path.write_text(text)
    with pytest.raises(DeviceBusy, match="another search"):
        DeviceLock("cpu", "y", tmp_path).acquire(print)
    lock.release()


@pytest.mark.parametrize(
    ("device", "gpus", "shown", "name"),
    [
        ("", [], None, "cpu"),
        ("cpu", CARDS, None, "cpu"),
        ("", CARDS, None, "GPU-0a"),
        ("cuda", CARDS, None, "GPU-0a"),
        ("cuda:1", CARDS, None, "GPU-1a"),
        ("cuda:0", CARDS, "1", "GPU-1a"),
        ("cuda:1", CARDS, "1,0", "GPU-0a"),
        ("cuda", CARDS, "GPU-1", "GPU-1a"),
        ("cuda", CARDS, "MIG-7/../x", "MIG-7x"),
        ("cuda:9", CARDS, None, "cuda-9"),
        ("cuda", CARDS, "", "cuda"),
        ("xpu:1", [], None, "xpu-1"),
    ],
)
def test_one_name_for_one_piece_of_hardware(device, gpus, shown, name):
    environ = {} if shown is None else {"CUDA_VISIBLE_DEVICES": shown}
    assert lock_name(device, gpus, environ) == name


@pytest.mark.parametrize(
    ("environ", "name"),
    [
        ({}, "cuda-0"),
        ({"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, "GPU-0a"),
        ({"CUDA_VISIBLE_DEVICES": "1"}, "cuda-1"),
        ({"CUDA_VISIBLE_DEVICES": "GPU-1"}, "GPU-1a"),
    ],
)
def test_no_card_is_taken_for_another_where_they_differ_and_are_numbered_by_speed(environ, name):
    cards = [replace(card, name=f"card {index}") for index, card in enumerate(CARDS)]
    assert lock_name("cuda:0", cards, environ) == name


def test_the_device_that_the_probe_finds_is_held_too(monkeypatch, tmp_path):
    monkeypatch.setenv("AUTOTUNE_LOCKS", str(tmp_path))
    locks = DeviceLocks("x", print)
    for device in ("xpu:0", "cpu", "cpu"):
        locks.take(device)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cpu.lock", "xpu-0.lock"]
    locks.release()
    assert list(tmp_path.iterdir()) == []


def test_two_searches_never_write_to_one_folder(tmp_path):
    script = tmp_path / "train.py"
    script.write_text("x = 1\n")
    folder = RunFolder(tmp_path / "run")
    folder.create()
    held = FolderLock(folder.path)
    held.acquire()
    arguments = (Source(script=str(script)), folder, Wishes(trials=3), Listener())
    with pytest.raises(RunFolderError, match="another search is writing"):
        search_workload(*arguments, verify="none", runner=SimulatedRunner())
    held.release()
    search_workload(*arguments, verify="none", runner=SimulatedRunner())
    assert folder.best.exists()


def test_the_command_is_refused_before_it_replaces_anything(holder, tmp_path, monkeypatch):
    """From a shell: exit 1, one message; `--force` has removed nothing of the earlier search."""
    script, run = tmp_path / "train.py", tmp_path / "run"
    script.write_text("x = 1\n")
    run.mkdir()
    (run / "run.json").write_text("precious")
    ended = subprocess.run(
        [sys.executable, "-m", "autotune", "search", script, "--out", run, "--force", "--device", "cpu"],
        env={**os.environ, "AUTOTUNE_LOCKS": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ended.returncode == 1
    assert ended.stderr.count("error: ") == 1
    assert f"process {holder.pid}" in ended.stderr
    assert Path(run / "run.json").read_text() == "precious"
