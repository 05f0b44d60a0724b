"""What the machine has: quotas of every kind of cgroup, and probes that find nothing."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pynvml
import pytest

from autotune import machine
from autotune.machine import Machine, unasked, usable_cores, versions

V2 = "0::/job\n"
V1 = "4:memory:/job\n3:cpu,cpuacct:/job\n1:name=systemd:/job\n"


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.fixture(autouse=True)
def eight_cores(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)))


@pytest.mark.parametrize(
    ("own", "files", "cores"),
    [
        (V2, {}, 8.0),
        (V2, {"job/cpu.max": "max 100000\n"}, 8.0),
        (V2, {"job/cpu.max": "150000 100000\n"}, 1.5),
        (V2, {"job/cpu.max": "max 100000\n", "cpu.max": "400000 100000\n"}, 4.0),
        (V2, {"job/cpu.max": "1600000 100000\n"}, 8.0),
        (
            "0::/a/b/c\n",
            {"a/b/c/cpu.max": "max 100000", "a/b/cpu.max": "200000 100000", "a/cpu.max": "50000 20000"},
            2.0,
        ),
        ("0::/../other\n", {"cpu.max": "300000 100000"}, 3.0),
        (V2, {"cpu.max": "200000 100000"}, 2.0),  # the namespace hides the job's own folder
        (V1, {"cpu/job/cpu.cfs_quota_us": "-1\n", "cpu/job/cpu.cfs_period_us": "100000\n"}, 8.0),
        (V1, {"cpu/job/cpu.cfs_quota_us": "150000\n", "cpu/job/cpu.cfs_period_us": "100000\n"}, 1.5),
        (V1, {"cpu/cpu.cfs_quota_us": "200000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 2.0),
        (V1, {"cpu/job/cpu.cfs_quota_us": "150000\n"}, 8.0),
        ("nonsense\n::\n", {}, 8.0),
        ("", {"cpu.max": "100000 100000"}, 8.0),
    ],
)
def test_c10_c30_the_quota_counts_as_well_as_the_affinity(tmp_path, own, files, cores):
    """Pitfall 15: a container with a quota reports the host's cores."""
    assert usable_cores(write(tmp_path, files), own) == cores


def test_the_affinity_counts_as_well_as_the_quota(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {3})
    assert usable_cores(write(tmp_path, {"job/cpu.max": "150000 100000"}), V2) == 1.0


@pytest.mark.parametrize(
    ("own", "files", "room"),
    [
        (V2, {}, None),
        (V2, {"job/memory.max": "max\n", "job/memory.current": "5\n"}, None),
        (V2, {"job/memory.max": "1000\n", "job/memory.current": "400\n"}, 600),
        (V2, {"memory.max": "1000\n", "memory.current": "1400\n"}, 0),
        ("0::/a/b\n", {"a/memory.max": "900", "a/memory.current": "100", "a/b/memory.max": "max"}, 800),
        (V1, {"memory/job/memory.limit_in_bytes": "1000\n", "memory/job/memory.usage_in_bytes": "400\n"}, 600),
        (V1, {"memory/memory.limit_in_bytes": "9223372036854771712", "memory/memory.usage_in_bytes": "5"}, None),
        # the page cache is in use until somebody needs it
        (
            V2,
            {
                **{"job/memory.max": "1000", "job/memory.current": "950"},
                "job/memory.stat": "anon 150\nfile 800\nshmem 100\ninactive_file 500\nactive_file 200\n",
            },
            750,
        ),
        (
            V1,
            {
                **{"memory/job/memory.limit_in_bytes": "1000", "memory/job/memory.usage_in_bytes": "950"},
                "memory/job/memory.stat": "active_file 2\ntotal_inactive_file 500\ntotal_active_file 200\n",
            },
            750,
        ),
        (V2, {"memory.max": "1000", "memory.current": "400", "memory.stat": "active_file 500"}, 1000),
    ],
)
def test_the_memory_of_the_cgroup_counts_too(tmp_path, monkeypatch, own, files, room):
    class Memory:
        available = 10**9

    monkeypatch.setattr(machine.psutil, "virtual_memory", Memory)
    assert machine.available_bytes(write(tmp_path, files), own) == (10**9 if room is None else room)


def test_every_probe_may_find_nothing(monkeypatch):
    monkeypatch.setattr(machine, "_read", lambda path: "")
    monkeypatch.setattr(machine, "_free_bytes", lambda folder: None)
    machine._cpu_name.cache_clear()
    found = Machine.read()
    machine._cpu_name.cache_clear()
    assert found.cpu
    assert found.usable_cores == 8.0
    assert found.shm_free_bytes is None
    assert found.to_dict()["cpu"] == found.cpu


def test_a_folder_that_is_not_there_has_no_free_bytes():
    assert machine._free_bytes("/no/such/folder") is None
    assert machine._free_bytes("/") > 0


def test_versions_of_what_is_not_installed_are_left_out(monkeypatch):
    monkeypatch.setattr(machine, "PACKAGES", ("torch", "no-such-package"))
    assert list(versions()) == ["torch"]


def test_what_must_be_the_same_for_figures_to_carry_over():
    here = Machine.read()
    assert set(here.identity()) == {"device", "cores", "torch"}
    assert here.identity()["cores"] == "8"


def card(index: int, name: str) -> machine.Gpu:
    return machine.Gpu(index=index, name=name, total_bytes=1, free_bytes=1, driver="570", processes=0)


@pytest.mark.parametrize(
    ("device", "name", "environment", "told"),
    [
        ("", "", {}, "fast"),
        ("cpu", "a CPU", {}, "a CPU"),
        ("cpu", "fast", {}, "a CPU"),
        ("cuda:1", "slow", {}, "slow"),
        ("cuda:0", "slow", {}, "slow"),  # torch counts from the fastest, the driver by place
        ("cuda:0", "slow", {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, "fast"),
        ("cuda:0", "slow", {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "1"}, "slow"),
        ("cuda:1", "another", {}, "fast"),
    ],
)
def test_the_device_is_the_one_that_torch_names(device, name, environment, told, monkeypatch):
    for variable in ("CUDA_DEVICE_ORDER", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.delenv(variable, raising=False)
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)
    here = replace(Machine.read(), cpu="a CPU", gpus=(card(0, "fast"), card(1, "slow")))
    assert here.identity(device, name)["device"] == told
    assert replace(here, gpus=()).identity(device, name)["device"] == "a CPU"


@pytest.mark.parametrize(
    ("device", "with_cards", "without"),
    [("cpu", False, True), ("cuda:0", True, True), ("cuda:1", False, False), ("", True, True)],
)
def test_which_device_is_taken_where_none_is_named(device, with_cards, without):
    assert unasked(device, cards=True) is with_cards
    assert unasked(device, cards=False) is without


class Driver:
    """NVML with one card, which may fail halfway."""

    NVMLError = pynvml.NVMLError

    def __init__(self, fails: bool = False, silent: bool = False) -> None:
        self.fails, self.silent, self.shut = fails, silent, False

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in dir(self):
            if name.startswith("nvml"):
                monkeypatch.setattr(pynvml, name, getattr(self, name))

    def nvmlInit(self) -> None: ...
    def nvmlShutdown(self) -> None:
        self.shut = True

    def nvmlSystemGetDriverVersion(self) -> str:
        return "570.1"

    def nvmlDeviceGetCount(self) -> int:
        return 1

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        return index

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> object:
        if self.fails:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return type("Memory", (), {"total": 100, "free": 60})

    def nvmlDeviceGetName(self, handle: int) -> str:
        return "Card"

    def nvmlDeviceGetComputeRunningProcesses(self, handle: int) -> list[int]:
        if self.silent:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NO_PERMISSION)
        return [1, 2]

    def nvmlDeviceGetUUID(self, handle: int) -> str:
        return f"GPU-{handle}"


@pytest.mark.parametrize("fails", [False, True])
def test_cards_are_read_whole_or_not_at_all(monkeypatch, fails):
    driver = Driver(fails)
    driver.install(monkeypatch)
    found = Machine.read().gpus
    assert driver.shut
    assert len(found) == (0 if fails else 1)
    if found:
        assert (found[0].name, found[0].free_bytes, found[0].processes) == ("Card", 60, 2)


def test_a_card_whose_processes_may_not_be_known_is_still_a_card(monkeypatch):
    Driver(silent=True).install(monkeypatch)
    (found,) = Machine.read().gpus
    assert (found.name, found.processes) == ("Card", 0)
