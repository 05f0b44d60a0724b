"""Peak memory on the host: what is counted, and the two traps beside it."""

from __future__ import annotations

import multiprocessing
import os
import resource
import subprocess
import sys
import threading
import time

import numpy as np
import psutil
import pytest

from autotune.measure.memory import (
    HostMemory,
    forked_from,
    own_bytes,
    peak_rss,
    proportional_bytes,
    tree_bytes,
    workers,
)

MIB = 1 << 20
inherited = np.empty(0, dtype=np.uint8)

CHILD = """
import resource
from autotune.measure.memory import HostMemory, peak_rss
block = bytearray(50 << 20)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, peak_rss())
"""


def touch(mebibytes: int) -> None:
    np.ones(mebibytes * MIB, dtype=np.uint8)


def hold(mebibytes: int, ready: multiprocessing.synchronize.Event) -> None:
    kept = np.ones(mebibytes * MIB, dtype=np.uint8)
    ready.set()
    time.sleep(30 + kept[0])


def test_c58_the_peak_of_a_parent_is_not_its_childs():
    """Pitfall 5: ru_maxrss passes from parent to child, VmHWM does not."""
    touch(600)
    printed = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True, check=True).stdout
    inherited, own = map(int, printed.split())
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 > 600 * MIB
    assert inherited > 600 * MIB
    assert 50 * MIB < own < 300 * MIB


def test_a_peak_between_two_looks_is_seen():
    """Pitfall 6: memory held for a moment only."""
    memory = HostMemory()
    memory.reset_peak()
    before = peak_rss()
    touch(300)
    after = proportional_bytes(0) + memory.steady_peak()
    assert after > before + 280 * MIB


def test_a_reset_starts_the_steady_peak_anew_and_keeps_the_lifetime_one():
    memory = HostMemory()
    touch(300)
    memory.reset_peak()
    # of this process alone: other tests' children may live beside it
    assert memory.lifetime_peak(0) > peak_rss() + 250 * MIB


def test_workers_count_with_what_they_hold_alone():
    """Pitfall 7: the sum of resident sizes counts shared pages once in each process."""
    context = multiprocessing.get_context("fork")
    shared = np.ones(200 * MIB, dtype=np.uint8)
    memory = HostMemory()
    memory.reset_peak()
    alone = memory.steady_peak()
    ready = [context.Event() for _ in range(2)]
    processes = [context.Process(target=hold, args=(50, event)) for event in ready]
    for process in processes:
        process.start()
    try:
        assert all(event.wait(20) for event in ready)
        resident = sum(process.memory_info().rss for process in workers())
        assert {process.pid for process in processes} <= {process.pid for process in workers()}
        assert all(own_bytes(process.pid) >= 45 * MIB for process in processes)
        assert 90 * MIB < memory.steady_peak() - alone < resident - 300 * MIB
        tree = memory.sample_tree()
        assert tree == memory.tree_pss
        assert tree < alone + resident - 300 * MIB
    finally:
        for process in processes:
            process.kill()
            process.join()
    assert shared[0] == 1


def fork_of_a_server(workers: int, results: multiprocessing.Queue) -> None:
    """A trial: forked from what holds `inherited`, writes over half of it and has workers from before it did."""
    context = multiprocessing.get_context("fork")
    ready, over = context.Barrier(workers + 1), context.Event()
    processes = [context.Process(target=wait_for, args=(ready, over)) for _ in range(workers)]
    for process in processes:
        process.start()
    ready.wait(20)
    inherited[: 100 * MIB] = 2  # the workers keep the old pages, which they share with the server alone
    tree = tree_bytes(os.getpid(), [process.pid for process in processes])
    naive = sum(proportional_bytes(pid) for pid in [os.getpid(), *(process.pid for process in processes)])
    results.put((tree, naive, psutil.Process().memory_info().rss))
    over.set()
    for process in processes:
        process.join()


def wait_for(ready: threading.Barrier, over: threading.Event) -> None:
    ready.wait(20)
    over.wait(20)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_pages_shared_with_the_server_and_among_workers_are_held_all_the_same(count):
    """A page counts once however many share it: it is the trial's whether or not the server has it, too."""
    global inherited
    inherited = np.ones(200 * MIB, dtype=np.uint8)
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    try:
        trial = context.Process(target=fork_of_a_server, args=(count, results))
        trial.start()
        tree, naive, resident = results.get(timeout=60)
        trial.join()
    finally:
        inherited = np.empty(0, dtype=np.uint8)
    of_workers = 100 * MIB if count else 0
    assert 200 * MIB + of_workers < tree < resident + of_workers + 100 * MIB  # a worker writes into some pages, too
    assert naive < tree - 40 * MIB


def test_a_process_that_started_a_program_was_not_forked_from_its_parent():
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        assert forked_from(child.pid) == 0
    finally:
        child.kill()
        child.wait()


def test_a_process_that_is_gone_holds_nothing():
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    assert (proportional_bytes(gone.pid), own_bytes(gone.pid), tree_bytes(gone.pid, [])) == (0, 0, 0)
    assert forked_from(gone.pid) == 0


def test_where_the_peak_cannot_be_reset_it_stays_an_upper_bound(monkeypatch, tmp_path):
    from autotune.measure import memory as module

    (tmp_path / "self").mkdir()
    (tmp_path / "self/status").write_text("Name:\tx\nVmHWM:\t    1234 kB\n")
    (tmp_path / "self/clear_refs").mkdir()
    monkeypatch.setattr(module, "PROC", tmp_path)
    memory = HostMemory()
    memory.reset_peak()
    assert peak_rss() == 1234 * 1024
    (tmp_path / "self/status").write_text("Name:\tx\n")
    assert peak_rss() == 0
    assert memory.lifetime_peak(5) == 1234 * 1024
