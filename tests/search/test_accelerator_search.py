"""A real search, each trial in a process of its own, on an accelerator that is none: memory, throttling, neighbours."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pynvml
import pytest

from autotune.options import OPTIONS
from autotune.records import REPEAT, Outcome, Source
from autotune.search.run import search_workload
from autotune.search.setup import Wishes
from autotune.trials.folder import RunFolder
from autotune.trials.runner import SERVER, ForkServerRunner
from tests.search.simulated import Listener

MIB = 1 << 20
SCRIPT = """\
import torch
from torch import nn
from torch.utils.data import TensorDataset
import autotune
from autotune.measure import window
from tests.measure.fake_device import install

device = install()
window.flags_between = lambda *readings: []  # the machine may be as busy as it likes
device.total = 1000 * 2**20
first = True


def dataset():
    return TensorDataset(torch.randn(256, 4), torch.randint(0, 3, (256,)))


def training_step(model, batch):
    global first
    size = len(batch[0])
    workspace = device.allocate(2**20 * (60 if first else 20))  # the first step tries algorithms out
    activations = device.allocate(2**20 * 10 * size)
    device.submit(0.001 + 0.0001 * size)
    device.free(activations)
    device.free(workspace)
    first = False
    return nn.functional.cross_entropy(model(batch[0]), batch[1])


workload = autotune.Workload(
    model=lambda: nn.Linear(4, 3), dataset=dataset, training_step=training_step, baseline={"batch_size": 8}
)
"""


class Driver:
    """NVML with one card, on which the processes of a trial hold memory; nothing else of NVML answers."""

    def __init__(self) -> None:
        self.foreign = self.throttled = False
        self.reasons_asked = 0

    def install(self, patch: pytest.MonkeyPatch) -> None:
        answers = {
            "nvmlInit": lambda: None,
            "nvmlShutdown": lambda: None,
            "nvmlDeviceGetCount": lambda: 1,
            "nvmlDeviceGetHandleByIndex": lambda index: index,
            "nvmlDeviceGetComputeRunningProcesses": self.running,
            "nvmlDeviceGetCurrentClocksEventReasons": lambda handle: 0x40 if self.throttled else 0,
            "nvmlDeviceGetClockInfo": lambda handle, which: 1000 if self.throttled else 1980,
        }
        for name, answer in answers.items():
            patch.setattr(pynvml, name, answer)

    def running(self, handle: int) -> list[Any]:
        # other tests may have left processes of torch's or Python's own beside the fork server
        children = psutil.Process().children()
        servers = [item for item in children if SERVER in (item.as_dict(["cmdline"])["cmdline"] or [])]
        mine = [process.pid for server in servers for process in server.children(recursive=True)]
        found = [SimpleNamespace(pid=pid, usedGpuMemory=5 * MIB) for pid in mine]
        return [*found, SimpleNamespace(pid=1, usedGpuMemory=9 * MIB)] if self.foreign else found


class Told(Listener):
    """Changes what the driver says of the trials whose place in the order is named."""

    def __init__(self, driver: Driver, **when: int) -> None:
        super().__init__()
        self.driver, self.when, self.place = driver, when, 0

    def trial_started(self, number: int, label: str, *others: Any) -> None:
        super().trial_started(number, label, *others)
        for what, place in self.when.items():
            setattr(self.driver, what, self.place == place)
        self.place += 1


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkServerRunner]:
    root = str(Path(__file__).parents[2])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH", "")])))
        runner = ForkServerRunner(tmp_path_factory.mktemp("server") / "server.log")
        yield runner
        runner.close()


@pytest.fixture
def search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runner: ForkServerRunner) -> Any:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    driver = Driver()
    driver.install(monkeypatch)

    def run(when: dict[str, int] | None = None, **options: Any) -> Any:
        # a window that the driver is asked in more than once, however busy the machine
        options = {"trials": 3, "target": 0.5, "trial_budget_s": 1.0, "headroom": 0.0, **options}
        wishes = Wishes(device="fake:0", excluded=[name for name in OPTIONS if name != "batch_size"], **options)
        told = Told(driver, **(when or {}))
        folder = RunFolder(tmp_path / "run")
        result = search_workload(Source(script=str(script)), folder, wishes, told, verify="none", runner=runner)
        return result, list(folder.records()), told

    return run


def test_a_batch_beyond_the_cap_is_out_of_memory_and_the_search_goes_on(search):
    # at random, since the other samplers see that the large batch will not fit
    result, records, _ = search(restricted={"batch_size": (8, 64)}, memory_limit_bytes=300 * MIB, sampler="random")
    outcomes = {record.config["batch_size"]: record.outcome for record in records}
    assert outcomes == {8: Outcome.OK, 64: Outcome.OUT_OF_MEMORY}
    assert result.best["batch_size"] == 8
    failure = next(record.failure for record in records if record.outcome is Outcome.OUT_OF_MEMORY)
    assert failure.reason == "out of device memory"
    for record in records[:2]:
        found = record.measurement
        assert (found.steady.allocated, found.lifetime.allocated) == (100 * MIB, 140 * MIB)
        assert found.lifetime.reserved <= 300 * MIB
        assert found.lifetime.process == 5 * MIB  # as the driver says


def test_a_throttled_trial_is_rejected_and_measured_again(search):
    _, records, told = search({"throttled": 2}, restricted={"batch_size": (8, 16)})
    flags = {record.number: set(record.measurement.flags) for record in records}
    assert [number for number, found in flags.items() if "gpu_throttled" in found] == [2]
    assert told.labels[3] == REPEAT
    assert records[3].config == records[2].config
    assert any("gpu_throttled" in note for note in told.notes)
    clocks = {record.number: record.measurement.sm_clock_mhz for record in records}
    assert (clocks[2], clocks[3]) == (1000, 1980)


def test_a_foreign_process_on_the_card_is_flagged_and_the_trial_measured_again(search):
    _, records, told = search({"foreign": 0}, restricted={"batch_size": (8, 16)})
    assert "gpu_shared" in records[0].measurement.flags
    assert [label == REPEAT for label in told.labels[:3]] == [False, True, False]  # once, whatever comes later
    assert records[1].config == records[0].config
    assert not any("gpu_shared" in record.measurement.flags for record in records[1:])


def test_what_is_free_on_the_card_is_read_before_the_probe_takes_its_own(search):
    result, _, _ = search(restricted={"batch_size": (8, 16)})
    facts = result.prepared.facts
    assert facts.device_free_bytes == facts.device_memory_bytes
