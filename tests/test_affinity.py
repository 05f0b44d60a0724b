"""Cores of their own for the training process and its workers: every thread is moved, and moved back."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from autotune import machine
from autotune import tuned as tuned_module
from autotune.affinity import KeepTo, keep_to
from autotune.config import Config
from autotune.machine import core_groups, share_cores, usable_cores
from autotune.tuned import Tuned

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


class Where(Dataset[Any]):
    """Samples that say on which cores the process that reads them may run."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> Any:
        return sorted(os.sched_getaffinity(0)), os.environ.get("MARK", "")


def mark(worker: int) -> None:
    os.environ["MARK"] = f"worker {worker}"


def first(items: list[Any]) -> Any:
    return items[0]


@pytest.fixture
def waiting_thread() -> Iterator[int]:
    """Another thread of this process, by its number to the kernel."""
    end, known, numbers = threading.Event(), threading.Event(), []

    def run() -> None:
        numbers.append(threading.get_native_id())
        known.set()
        end.wait()

    thread = threading.Thread(target=run)
    thread.start()
    known.wait()
    yield numbers[0]
    end.set()
    thread.join()


def test_every_thread_keeps_to_the_cores_and_is_set_back(waiting_thread):
    before, cores = os.sched_getaffinity(0), usable_cores()
    threads = torch.get_num_threads()
    one = {min(before)}
    restore = keep_to(one)
    try:
        assert os.sched_getaffinity(0) == os.sched_getaffinity(waiting_thread) == one
        assert torch.get_num_threads() == 1
        assert usable_cores() == cores  # the machine has not become smaller
        with warnings.catch_warnings(record=True) as said:
            iter(DataLoader(Where(), num_workers=len(before)))
        assert not [item for item in said if "suggested max" in str(item.message)]
    finally:
        restore()
    assert os.sched_getaffinity(0) == os.sched_getaffinity(waiting_thread) == before
    assert torch.get_num_threads() == threads
    assert not any("This DataLoader" in str(item[1]) for item in warnings.filters)


def test_a_worker_keeps_to_its_cores_and_the_users_own_function_is_called(monkeypatch):
    """The training process's threads are elsewhere; on one core both are the same, and the call is what is seen."""
    ours, theirs = {min(os.sched_getaffinity(0))}, {max(os.sched_getaffinity(0))}
    monkeypatch.setattr(tuned_module, "share_cores", lambda workers, accelerator: (ours, theirs))
    before = os.sched_getaffinity(0)
    with Tuned(Config(num_workers=1, worker_affinity=True), device="cpu") as tuned:
        loader = tuned.loader(Where(), collate_fn=first, worker_init_fn=mark)
        assert next(iter(loader)) == (sorted(theirs), "worker 0")
        assert os.sched_getaffinity(0) == ours
        assert isinstance(tuned.loader(Where()).worker_init_fn, KeepTo)  # a second loader, the same cores
    assert os.sched_getaffinity(0) == before


@pytest.mark.parametrize("workers", [0, 1])
def test_without_workers_or_cores_to_share_nothing_moves(workers, monkeypatch):
    monkeypatch.setattr(tuned_module, "share_cores", lambda workers, accelerator: None)
    before = os.sched_getaffinity(0)
    with Tuned(Config(num_workers=workers, worker_affinity=True), device="cpu") as tuned:
        tuned.loader(Where(), worker_init_fn=mark)
        assert os.sched_getaffinity(0) == before


def topology(folder: Path, siblings: list[str]) -> Path:
    for core, text in enumerate(siblings):
        (folder / f"cpu{core}/topology").mkdir(parents=True)
        (folder / f"cpu{core}/topology/thread_siblings_list").write_text(f"{text}\n")
    return folder


@pytest.mark.parametrize(
    ("siblings", "groups"),
    [
        (["0,2", "1,3", "0,2", "1,3"], [(0, 2), (1, 3)]),
        (["0-1", "0-1", "2-3", "2-3"], [(0, 1), (2, 3)]),
        ([], [(0,), (1,), (2,), (3,)]),
        (["0,7", "1", "2", "nonsense"], [(0,), (1,), (2,), (3,)]),
    ],
)
def test_logical_cores_of_one_physical_core_go_together(siblings, groups, tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "own_cores", lambda: {0, 1, 2, 3})
    assert core_groups(topology(tmp_path, siblings)) == groups


@pytest.mark.parametrize(
    ("groups", "workers", "accelerator", "training"),
    [
        ([(0, 2), (1, 3)], 1, False, {0, 2}),
        ([(0,), (1,), (2,), (3,)], 1, False, {0, 1, 2}),
        ([(0,), (1,), (2,), (3,)], 8, False, {0, 1}),
        ([(0,), (1,), (2,), (3,)], 8, True, {0, 1}),
        ([(core, core + 8) for core in range(8)], 16, True, {0, 8, 1, 9}),
    ],
)
def test_cores_are_shared_out_whole(groups, workers, accelerator, training, monkeypatch):
    monkeypatch.setattr(machine, "core_groups", lambda: groups)
    found = share_cores(workers, accelerator=accelerator)
    assert found is not None
    assert found[0] == training
    assert found[0] | found[1] == {core for group in groups for core in group}
    assert not found[0] & found[1]
    assert found[1]


@pytest.mark.parametrize("groups", [[(0,), (1,)], [(0, 1, 2, 3)], [(0,), (1,), (2,)]])
def test_too_few_cores_are_not_shared_out(groups, monkeypatch):
    monkeypatch.setattr(machine, "core_groups", lambda: groups)
    assert share_cores(2, accelerator=False) is None
