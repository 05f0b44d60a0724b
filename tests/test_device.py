"""The seam to the device: what the CPU can do, and names of devices."""

from __future__ import annotations

import builtins
import io
import platform

import pytest
import torch

from autotune import device as module
from autotune.config import Config
from autotune.device import Cuda, Device, DevicePeaks, device_named, why_allocator_is_set
from autotune.errors import Unsupported, UsageError
from autotune.scripting.run import AppliedConfig


def test_the_cpu_has_neither_cap_nor_peaks_of_its_own():
    cpu = device_named("cpu")
    assert type(cpu) is Device
    assert (cpu.type, cpu.is_accelerator) == ("cpu", False)
    assert cpu.name
    cpu.cap_memory(1)
    cpu.synchronize()
    cpu.reset_peaks()
    assert cpu.peaks() == cpu.lifetime_peaks() == DevicePeaks()
    assert (cpu.retries(), cpu.total_bytes(), cpu.free_bytes()) == (0, None, None)
    assert not cpu.native_fp16()


@pytest.mark.parametrize(
    ("machine", "line", "native"),
    [
        ("x86_64", "flags\t\t: fpu avx2 avx512_bf16 amx_tile", True),
        ("x86_64", "flags\t\t: fpu avx2 amx_bf16", True),
        ("x86_64", "flags\t\t: fpu avx2 avx512f", False),
        ("aarch64", "Features\t: fp asimd bf16 i8mm", True),
        ("aarch64", "Features\t: fp asimd", False),
        ("x86_64", "", False),
    ],
)
def test_c34_bf16_is_offered_where_the_cpu_computes_in_it(monkeypatch, machine, line, native):
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(builtins, "open", lambda *args, **kwargs: io.StringIO(f"processor\t: 0\n{line}\n"))
    found = Device(torch.device("cpu")).native_bf16()
    monkeypatch.undo()
    assert found == native


def test_a_cpu_that_tells_nothing_has_no_bf16(monkeypatch):
    def nothing(*args, **kwargs):
        raise OSError

    monkeypatch.setattr(builtins, "open", nothing)
    found = Device(torch.device("cpu")).native_bf16()
    monkeypatch.undo()
    assert not found


@pytest.mark.parametrize("name", ["gpu", "cuda:x", "what is this"])
def test_a_name_that_is_none(name):
    with pytest.raises(UsageError, match="no such device"):
        device_named(name)


def test_a_device_that_is_not_here(monkeypatch):
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: False)
    with pytest.raises(UsageError, match="there is no device cuda:7 here"):
        device_named("cuda:7")


def test_without_a_name_it_is_the_best_there_is(monkeypatch):
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda check_available: None)
    assert device_named().type == "cpu"


@pytest.mark.parametrize("name", ["", "cuda"])
def test_a_name_without_a_number_is_the_current_card(monkeypatch, name):
    answers = {
        "current_accelerator": lambda check_available=True: torch.device("cuda"),
        **{"is_available": lambda: True, "device_count": lambda: 4},
        **{"current_device_index": lambda: 2, "set_device_index": lambda index: None},
    }
    for key, answer in answers.items():
        monkeypatch.setattr(torch.accelerator, key, answer)
    assert device_named(name).torch == torch.device("cuda", 2)
    assert device_named("cuda:1").torch == torch.device("cuda", 1)


def test_an_accelerator_keeps_its_lifetime_peak_over_resets(monkeypatch):
    class Memory:
        peak = 100

        def max_memory_allocated(self, device):
            return self.peak

        def max_memory_reserved(self, device):
            return 2 * self.peak

        def reset_peak_memory_stats(self, device):
            self.peak = 30

    memory = Memory()
    monkeypatch.setattr(torch.accelerator, "memory", memory)
    monkeypatch.setattr(torch.accelerator, "set_device_index", lambda index: None)
    accelerator = module.Accelerator(torch.device("cuda", 0))
    assert accelerator.is_accelerator
    accelerator.reset_peaks()
    assert accelerator.peaks() == DevicePeaks(allocated=30, reserved=60)
    assert accelerator.lifetime_peaks() == DevicePeaks(allocated=100, reserved=200)
    memory.peak = 150
    assert accelerator.lifetime_peaks() == DevicePeaks(allocated=150, reserved=300)


class FakeCuda:
    """What torch.cuda answers of a card whose segments may grow or not."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, held: int = 0, expands: bool = True) -> None:
        self.settings: list[str] = []
        tensor = torch.empty(8)
        segment = {"address": tensor.data_ptr(), "total_size": 64, "is_expandable": expands}
        monkeypatch.setattr(torch.cuda, "is_initialized", lambda: held > 0)
        monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: held)
        monkeypatch.setattr(torch.cuda, "memory_snapshot", lambda: [segment])
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "a card")
        monkeypatch.setattr(torch.backends.cuda, "is_built", lambda: True)
        monkeypatch.setattr(torch, "empty", lambda *sizes, **others: tensor)
        monkeypatch.setattr(torch._C, "_accelerator_setAllocatorSettings", self.settings.append)
        for name in ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"):
            monkeypatch.delenv(name, raising=False)
        self.device = Cuda.__new__(Cuda)
        self.device.torch = torch.device("cuda:0")


def test_segments_expand_and_are_set_back_with_the_environments_other_settings(monkeypatch):
    fake = FakeCuda(monkeypatch)
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:64")
    fake.device.expand_segments()()
    assert fake.settings == [
        "max_split_size_mb:64,expandable_segments:True",
        "max_split_size_mb:64,expandable_segments:False",
    ]


def test_a_run_lets_segments_expand_without_beginning_to_use_the_card(monkeypatch):
    fake = FakeCuda(monkeypatch)

    def used(*_):
        raise AssertionError("the script can no longer choose its cards")

    for owner, name in ((torch.cuda, "memory_snapshot"), (torch.accelerator, "set_device_index")):
        monkeypatch.setattr(owner, name, used)
    with AppliedConfig(Config(expandable_segments=True), None, lambda applied: None):
        assert fake.settings == ["expandable_segments:True"]
    assert fake.settings[1:] == ["expandable_segments:False"]


def test_segments_that_do_not_expand_are_unsupported(monkeypatch):
    with pytest.raises(Unsupported, match="no effect on a card"):
        FakeCuda(monkeypatch, expands=False).device.expand_segments()


def test_segments_asked_for_too_late_are_warned_about(monkeypatch):
    fake = FakeCuda(monkeypatch, held=64 << 20)
    with pytest.warns(UserWarning, match="too late for 64 MiB .* make Tuned before"):
        fake.device.expand_segments()


@pytest.mark.parametrize(
    ("value", "set_there"), [("expandable_segments:True", True), ("backend:cudaMallocAsync", True), ("x:1", False)]
)
def test_an_environment_that_sets_the_allocator_keeps_it(value, set_there, monkeypatch):
    monkeypatch.setenv("PYTORCH_ALLOC_CONF", value)
    assert (why_allocator_is_set() is not None) == set_there


def test_the_cpu_has_no_memory_snapshot(tmp_path):
    worked = []
    assert not device_named("cpu").save_snapshot(tmp_path / "snapshot", lambda: worked.append(1))
    assert not worked
    assert not (tmp_path / "snapshot").exists()
