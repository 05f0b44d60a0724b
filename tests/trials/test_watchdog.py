"""Limits enforced from outside, on make-believe processes, and the driver's view of a card."""

from __future__ import annotations

import itertools
import os
import time
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pynvml
import pytest

from autotune.config import Config
from autotune.facts import Facts
from autotune.records import Limits, Outcome
from autotune.trials import preflight as preflight_module
from autotune.trials import watchdog as module
from autotune.trials.gpu import GpuWatch
from autotune.trials.preflight import preflight
from autotune.trials.watchdog import LOG_GAP, MAX_LOG_BYTES, Watchdog

MIB = 1 << 20
SHM = "out of shared memory"


# ---- memory and time ----


@pytest.fixture
def processes(monkeypatch) -> dict[str, Any]:
    """A trial with two workers, whose sizes a test sets; `asked` counts the slow readings."""
    sizes: dict[str, Any] = {"main": 100, "worker": 60, "exact": 130, "asked": 0, "now": 0.0}

    def exact(root: int, below: list[int]) -> int:
        assert (root, below) == (1, [2, 3])
        sizes["asked"] += 1
        return int(sizes["exact"] * MIB)

    monkeypatch.setattr(module, "_descendants", lambda pid: [2, 3])
    monkeypatch.setattr(module, "_resident", lambda pid: sizes["main"] * MIB)
    monkeypatch.setattr(module, "_own", lambda pid: sizes["worker"] * MIB)
    monkeypatch.setattr(module, "tree_bytes", exact)
    monkeypatch.setattr(module, "time", types.SimpleNamespace(monotonic=lambda: 1000 + sizes["now"]))
    return sizes


def watch(tmp_path: Path, limit_mib: int = 200, timeout_s: float = 50.0) -> Watchdog:
    return Watchdog(1, Limits(host_bytes=limit_mib * MIB, timeout_s=timeout_s), tmp_path / "log")


def test_what_is_cheap_to_read_decides_where_it_is_within_the_limit(processes, tmp_path):
    assert watch(tmp_path, 230).verdict() is None
    assert processes["asked"] == 0


def test_over_the_limit_the_exact_figure_decides(processes, tmp_path):
    dog = watch(tmp_path)
    assert dog.verdict() is None
    processes["exact"] = 210
    assert dog.verdict() is None  # read a moment ago
    processes["now"] = 0.6
    verdict = dog.verdict()
    assert verdict is not None
    assert (verdict[0], verdict[1].reason) == (Outcome.OUT_OF_MEMORY, "over the host memory limit")
    assert "0.21 GiB" in verdict[1].message
    assert processes["asked"] == 2


def test_the_card_is_looked_at_as_the_window_begins_and_five_times_a_second(processes, tmp_path, monkeypatch):
    dog = watch(tmp_path)
    looks: list[tuple[float, bool]] = []
    monkeypatch.setattr(
        dog, "_gpu", types.SimpleNamespace(look=lambda family, timed: looks.append((processes["now"], timed)))
    )
    for step in range(20):  # a look each 0.05 s
        processes["now"] = step / 20
        dog.told("warm-up" if step < 10 else "window")
        dog.verdict()
    times = [now for now, _ in looks]
    assert next(now for now, timed in looks if timed) == 0.5
    assert all(timed == (now >= 0.5) for now, timed in looks)
    assert max(b - a for a, b in itertools.pairwise(times)) <= 0.25


def test_a_main_process_over_the_limit_needs_no_exact_figure(processes, tmp_path):
    processes["main"] = 201
    assert watch(tmp_path).verdict() is not None
    assert processes["asked"] == 0


def test_where_there_is_no_exact_figure_the_cheap_one_counts(processes, tmp_path):
    processes["exact"] = 0
    assert watch(tmp_path).verdict() is not None


@pytest.mark.parametrize("family", [[], [2]])
def test_c04_the_time_is_up(processes, tmp_path, monkeypatch, family):
    monkeypatch.setattr(module, "_descendants", lambda pid: family)
    dog = watch(tmp_path, 10_000)
    assert dog.verdict() is None
    processes["now"] = 50.1
    verdict = dog.verdict()
    assert verdict is not None
    assert (verdict[0], verdict[1].reason) == (Outcome.TIMEOUT, "no end within 50 s")
    assert ("num_workers=0" in verdict[1].message) == bool(family)


def test_a_process_that_is_gone_holds_nothing():
    assert module._resident(1 << 22) == module._own(1 << 22) == 0
    assert module._descendants(1 << 22) == []
    assert 0 < module._own(os.getpid()) < module._resident(os.getpid())


# ---- the log ----


def test_i4_a_log_keeps_its_begin_and_its_end(tmp_path):
    log = tmp_path / "log"
    log.write_bytes(b"begin" + b"x" * MAX_LOG_BYTES + b"end")
    with log.open("ab", buffering=0) as trial:
        module._shorten(log)
        trial.write(b" and more")
    text = log.read_bytes()
    assert text.startswith(b"begin")
    assert text.endswith(b"xend and more")
    assert text.count(LOG_GAP) == 1
    assert len(text) < MAX_LOG_BYTES
    module._shorten(tmp_path / "none")


def test_a_log_of_decent_size_is_left_alone(tmp_path):
    log = tmp_path / "log"
    log.write_bytes(b"x" * MAX_LOG_BYTES)
    module._shorten(log)
    assert log.stat().st_size == MAX_LOG_BYTES


# ---- the card ----


class Driver:
    """NVML with one card, on which `running` maps processes to bytes."""

    NVMLError = pynvml.NVMLError
    NVML_ERROR_NOT_FOUND = pynvml.NVML_ERROR_NOT_FOUND
    NVML_CLOCK_SM = pynvml.NVML_CLOCK_SM
    held, clock = 0, 1980
    refusal = pynvml.NVML_ERROR_NOT_SUPPORTED
    computing: Mapping[int, int] | None = None
    """percent of the card by process; None: the driver does not tell, and says `refusal`"""

    def __init__(self, running: dict[int, int | None], reasons: int = 0) -> None:
        self.running, self.reasons, self.open = running, reasons, False

    def nvmlDeviceGetProcessUtilization(self, handle: int, since_us: int) -> list[Any]:
        assert 0 < time.time() - since_us / 1e6 < 60
        if self.computing is None:
            raise pynvml.NVMLError(self.refusal)
        return [types.SimpleNamespace(pid=pid, smUtil=used) for pid, used in self.computing.items()]

    def nvmlInit(self) -> None:
        self.open = True

    def nvmlShutdown(self) -> None:
        self.open = False

    def nvmlDeviceGetCount(self) -> int:
        return 1

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        return index

    def nvmlDeviceGetComputeRunningProcesses(self, handle: int) -> list[Any]:
        return [types.SimpleNamespace(pid=pid, usedGpuMemory=used) for pid, used in self.running.items()]

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle: int) -> int:
        return self.reasons

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> int:
        return {"GPU-0": 0}[uuid]

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> Any:
        return types.SimpleNamespace(used=self.held)

    def nvmlDeviceGetClockInfo(self, handle: int, which: int) -> int:
        return self.clock


@pytest.mark.parametrize(
    ("running", "reasons", "seen"),
    [
        ({}, 0, {}),
        ({9: 500}, 0x40, {}),  # a card that the trial does not use
        ({1: 100}, 0, {"process_bytes": 100, "flags": (), "sm_clock_mhz": 1980}),
        ({1: 100, 2: 50}, 0x1, {"process_bytes": 150, "flags": (), "sm_clock_mhz": 1980}),
        ({1: 100, 9: 500}, 0, {"process_bytes": 100, "flags": ("gpu_shared",), "sm_clock_mhz": 1980}),
        ({1: 100}, 0x8, {"process_bytes": 100, "flags": ("gpu_throttled",), "sm_clock_mhz": 1980}),
        ({1: 100}, 0x4, {"process_bytes": 100, "flags": ("power_capped",), "sm_clock_mhz": 1980}),
        (
            {1: None, 9: None},
            0,
            {"process_bytes": 0, "flags": ("gpu_shared",), "sm_clock_mhz": 1980},
        ),  # a driver that counts no memory
    ],
)
def test_a12_what_the_driver_shows_of_a_trial(running, reasons, seen):
    driver = Driver(running, reasons)
    card = GpuWatch(1, nvml=driver)
    card.look([2], timed=True)
    assert card.seen() == seen
    card.close()
    assert not driver.open


@pytest.mark.parametrize(
    ("computing", "shared"), [({1: 97}, False), ({1: 90, 9: 60}, True), ({1: 97, 9: 2}, False), ({}, False)]
)
def test_a_process_that_only_holds_memory_disturbs_nothing(computing, shared):
    driver = Driver({1: 100, 9: 500})
    driver.computing = computing
    card = GpuWatch(1, nvml=driver)
    for _ in range(3):
        card.look([], timed=True)
    assert ("gpu_shared" in card.seen()["flags"]) is shared


def test_where_no_process_computed_lately_the_driver_finds_none():
    driver = Driver({1: 100, 9: 500})
    driver.refusal = pynvml.NVML_ERROR_NOT_FOUND
    card = GpuWatch(1, nvml=driver)
    card.look([], timed=True)
    assert card.seen()["flags"] == ()


@pytest.mark.parametrize("others", [({9: 50}, {}), ({}, {9: 50})], ids=["goes", "comes"])
def test_a_process_that_comes_or_goes_disturbs_though_it_is_idle(others):
    before, after = others
    driver = Driver({1: 100, **before})
    driver.computing = {}
    card = GpuWatch(1, nvml=driver)
    card.look([], timed=True)
    assert card.seen()["flags"] == ()
    driver.running = {1: 100, **after}
    card.look([], timed=True)
    assert card.seen()["flags"] == ("gpu_shared",)


def test_the_process_that_steers_is_no_other():
    driver = Driver({1: 100, os.getpid(): 300})  # a notebook whose kernel has used the card
    card = GpuWatch(1, nvml=driver)
    card.look([], timed=True)
    assert card.seen() == {"process_bytes": 100, "flags": (), "sm_clock_mhz": 1980}


def test_the_largest_sample_counts():
    driver = Driver({1: 300})
    card = GpuWatch(1, nvml=driver)
    for used in (300, 500, 200):
        driver.running = {1: used}
        card.look([], timed=True)
    assert card.seen()["process_bytes"] == 500


def test_the_clock_is_the_median_of_the_timed_window():
    driver = Driver({1: 100})
    card = GpuWatch(1, nvml=driver)
    for clock, timed in ((345, False), (1980, True), (1400, True), (1410, True)):
        driver.clock = clock
        card.look([], timed=timed)
    assert card.seen()["sm_clock_mhz"] == 1410


@pytest.mark.parametrize(
    ("before", "meanwhile", "seen"),
    [
        ({}, {4711: None}, {"process_bytes": 400, "flags": (), "sm_clock_mhz": 1980}),
        ({9: 50}, {9: 50, 4711: 400}, {"process_bytes": 0, "flags": ("gpu_shared",), "sm_clock_mhz": 1980}),
        ({9: 50}, {4711: 400}, {"process_bytes": 400, "flags": (), "sm_clock_mhz": 1980}),  # it has gone: no neighbour
    ],
)
def test_a_driver_that_numbers_processes_otherwise_is_asked_for_what_the_card_holds_more(before, meanwhile, seen):
    driver = Driver(before)
    driver.held = 600
    card = GpuWatch(1, "GPU-0", driver)
    driver.running = meanwhile
    driver.held = 1000
    card.look([2], timed=True)
    driver.held = 900
    card.look([2], timed=True)
    assert card.seen() == seen


def test_a_driver_that_tells_no_processes_is_asked_for_what_the_card_holds_more():
    class Silent(Driver):
        def nvmlDeviceGetComputeRunningProcesses(self, handle: int) -> list[Any]:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)

    driver = Silent({})
    card = GpuWatch(1, "GPU-0", driver)
    driver.held = 700
    card.look([], timed=True)
    assert card.seen() == {"process_bytes": 700, "flags": (), "sm_clock_mhz": 1980}


def test_where_the_driver_counts_no_memory_of_processes_the_card_does():
    driver = Driver({})
    card = GpuWatch(1, "GPU-0", driver)
    driver.running, driver.held = {1: None}, 800
    card.look([], timed=True)
    assert card.seen()["process_bytes"] == 800


def test_what_the_card_shows_counts_no_longer_once_the_trial_is_found_on_it():
    driver = Driver({9: 50})
    card = GpuWatch(1, "GPU-0", driver)
    card.look([], timed=True)
    driver.running = {1: 100}
    card.look([], timed=True)
    assert card.seen() == {"process_bytes": 100, "flags": (), "sm_clock_mhz": 1980}


def test_a_driver_that_fails_shows_nothing():
    class Broken(Driver):
        def nvmlDeviceGetComputeRunningProcesses(self, handle: int) -> list[Any]:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_UNKNOWN)

    class Absent(Driver):
        def nvmlInit(self) -> None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    for driver in (Broken({1: 1}), Absent({1: 1})):
        card = GpuWatch(1, nvml=driver)
        card.look([], timed=True)
        assert card.seen() == {}
        card.close()


def test_a_disturbance_before_the_timed_window_is_none():
    driver = Driver({1: 100, 9: 500}, 0x40)
    card = GpuWatch(1, nvml=driver)
    card.look([])
    driver.running, driver.reasons = {1: 100}, 0
    card.look([])  # the other one has gone
    card.look([], timed=True)
    assert card.seen() == {"process_bytes": 100, "flags": (), "sm_clock_mhz": 1980}


def test_memory_that_another_process_took_meanwhile_is_not_the_trials_though_no_window_saw_it():
    driver = Driver({9: 50})
    card = GpuWatch(1, "GPU-0", driver)
    driver.running, driver.held = {9: 50}, 4000
    card.look([])
    card.look([], timed=True)
    assert card.seen()["process_bytes"] == 0


def test_an_older_driver_tells_clocks_and_throttling_by_an_older_name():
    class Older(Driver):
        def nvmlDeviceGetCurrentClocksEventReasons(self, handle: int) -> int:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)

        def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: int) -> int:
            return self.reasons

    card = GpuWatch(1, nvml=Older({1: 100}, 0x40))
    card.look([], timed=True)
    assert card.seen() == {"process_bytes": 100, "flags": ("gpu_throttled",), "sm_clock_mhz": 1980}


def test_a_binding_that_knows_no_name_of_the_clocks_reasons_ends_nothing(monkeypatch):
    monkeypatch.delattr(Driver, "nvmlDeviceGetCurrentClocksEventReasons")
    card = GpuWatch(1, nvml=Driver({1: 100}, 0x40))
    card.look([], timed=True)
    assert card.seen() == {"process_bytes": 100, "flags": (), "sm_clock_mhz": 1980}


# ---- before a trial ----


def facts(**changes: Any) -> Facts:
    return Facts(device="cpu", device_name="cpu", **{"sample_bytes": MIB, "tensors_per_batch": 2, **changes})


def test_c3_shared_memory_that_will_not_do_is_known_beforehand():
    config = Config(batch_size=10, num_workers=2, prefetch_factor=4)  # ten batches of 10 MiB, and half as much again
    assert preflight(config, facts(), shm_free_bytes=150 * MIB) is None
    refused = preflight(config, facts(), shm_free_bytes=149 * MIB)
    assert refused is not None
    assert (refused[0], refused[1].reason) == (Outcome.OUT_OF_MEMORY, SHM)
    assert "--shm-size" in refused[1].message
    assert preflight(Config(batch_size=10), facts(), shm_free_bytes=0) is None


def test_c24_open_files_that_will_not_do_are_known_beforehand(monkeypatch):
    limits = {"soft": 100, "hard": 200}
    monkeypatch.setattr(
        preflight_module.resource, "getrlimit", lambda which: (limits["soft"], limits["hard"])
    )  # 64 + 2 tensors x 2 x (8 + 4) = 112
    config = Config(batch_size=1, num_workers=2, prefetch_factor=4)
    assert preflight(config, facts(sample_bytes=1)) is None
    limits["hard"] = 111
    refused = preflight(config, facts(sample_bytes=1))
    assert refused is not None
    assert (refused[0], refused[1].reason) == (Outcome.UNSUPPORTED, "too many open files")
    limits["hard"] = -1
    assert preflight(config, facts(sample_bytes=1)) is None
