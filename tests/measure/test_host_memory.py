"""Peak memory on the host: what is counted, and the two traps beside it."""

from __future__ import annotations

import multiprocessing
import resource
import subprocess
import sys
import time

import numpy as np

from autotune.measure.memory import HostMemory, own_bytes, peak_rss, proportional_bytes, workers

MIB = 1 << 20

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


def test_a_process_that_is_gone_holds_nothing():
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    assert (proportional_bytes(gone.pid), own_bytes(gone.pid)) == (0, 0)


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
