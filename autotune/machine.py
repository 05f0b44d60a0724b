"""What this machine has: usable cores, memory, devices, versions. Free of torch; every probe may come back unknown."""

from __future__ import annotations

import functools
import os
import platform
import shutil
from collections.abc import Iterator, Set
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path

import psutil

_given: frozenset[int] | None = None

PACKAGES = ("autotune", "torch", "optuna", "numpy")
CGROUPS = Path("/sys/fs/cgroup")
CORES = Path("/sys/devices/system/cpu")
FEWEST_TO_SHARE = 4  # logical cores; with fewer, one taken from either side costs more than the other gains


@dataclass(frozen=True, kw_only=True)
class Gpu:
    """An NVIDIA card, as its driver sees it."""

    index: int
    name: str
    total_bytes: int
    free_bytes: int
    driver: str
    processes: int
    """compute processes on it"""
    uuid: str = ""


@dataclass(frozen=True, kw_only=True)
class Machine:
    """A machine at one moment."""

    cpu: str
    usable_cores: float
    """the smaller of the cores this process may run on and its cgroup's quota"""
    memory_bytes: int
    available_bytes: int
    """memory that can be had without swapping, the cgroup's limit included"""
    shm_free_bytes: int | None
    load: float
    """load average of the last minute"""
    python: str
    versions: dict[str, str] = field(default_factory=dict)
    gpus: tuple[Gpu, ...] = ()

    @classmethod
    def read(cls) -> Machine:
        """Look at this machine now."""
        return cls(
            cpu=_cpu_name(),
            usable_cores=usable_cores(),
            memory_bytes=psutil.virtual_memory().total,
            available_bytes=available_bytes(),
            shm_free_bytes=_free_bytes("/dev/shm"),
            load=os.getloadavg()[0],
            python=platform.python_version(),
            versions=versions(),
            gpus=tuple(_gpus()),
        )

    def identity(self, device: str = "", name: str = "") -> dict[str, str]:
        """Return the fields that must be the same for figures to carry over.

        Args:
            device: as torch names it; empty: the best there is.
            name: what that device is called, where it is known; taken where it may be called so here.
        """
        names = self._names(device)
        identity = {"device": name if name in names else names[0], "cores": f"{self.usable_cores:g}"}
        return identity | {package: self.versions[package] for package in ("torch",) if package in self.versions}

    def _names(self, device: str) -> list[str]:
        """Return what a device may be called here; the CPU's name where there is no card."""
        kind, _, index = device.partition(":")
        if kind == "cpu" or not self.gpus:
            return [self.cpu]
        # elsewhere torch numbers the cards by their speed, or some of them alone, and the driver by their place
        alike = os.environ.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID" and "CUDA_VISIBLE_DEVICES" not in os.environ
        numbered = [gpu.name for gpu in self.gpus if alike and str(gpu.index) == (index or "0")]
        return numbered or [gpu.name for gpu in self.gpus]

    def to_dict(self) -> dict[str, object]:
        return asdict(self)


def unasked(device: str, *, cards: bool) -> bool:
    """Return whether a device, as torch names it, is the one that is taken where none is named.

    Args:
        cards: whether there are cards, as the driver sees them.
    """
    kind, _, index = device.partition(":")
    return not cards if kind == "cpu" else index in ("", "0")


def usable_cores(cgroup_root: Path = CGROUPS, own_cgroups: str | None = None) -> float:
    """Return how many cores this process may use: its affinity, capped by the CPU quota of its cgroups.

    `own_cgroups` is the text of /proc/self/cgroup; both arguments are there for tests.
    """
    cores = float(len(own_cores()))
    for unified, folder in cgroup_folders(cgroup_root, own_cgroups, "cpu"):
        quota = _quota_v2(folder) if unified else _quota_v1(folder)
        cores = cores if quota is None else min(cores, quota)
    return cores


def own_cores() -> set[int]:
    """Return the logical cores that this process was given, whatever it kept itself to since."""
    return set(_given or os.sched_getaffinity(0))


def remember_cores(given: Set[int] | None) -> None:
    """Note what this process was given before it keeps itself to a part of it; None: it no longer does."""
    global _given
    _given = None if given is None else frozenset(given)


def core_groups(root: Path = CORES) -> list[tuple[int, ...]]:
    """Return the logical cores that this process may use, those of one physical core together."""
    usable = own_cores()
    groups: dict[tuple[int, ...], None] = {}
    for core in sorted(usable):
        siblings = _read(root / f"cpu{core}/topology/thread_siblings_list")
        groups[tuple(sorted({core, *_numbers(siblings)} & usable))] = None
    return list(groups)


def share_cores(workers: int, *, accelerator: bool) -> tuple[set[int], set[int]] | None:
    """Return the cores for the training process and those for its loader workers; None where there are too few.

    Beside an accelerator the training process only launches work: two physical cores do. On a CPU the workers get a
    core each, half of them at most.
    """
    groups = core_groups()
    if len(groups) < 2 or sum(map(len, groups)) < FEWEST_TO_SHARE:
        return None
    training = min(2, len(groups) - 1) if accelerator else len(groups) - min(workers, len(groups) // 2)
    ours, theirs = ({core for group in part for core in group} for part in (groups[:training], groups[training:]))
    return ours, theirs


def available_bytes(cgroup_root: Path = CGROUPS, own_cgroups: str | None = None) -> int:
    """Return the memory that can be had without swapping, the limits of its cgroups included.

    The arguments are those of `usable_cores`.
    """
    available = int(psutil.virtual_memory().available)
    for unified, folder in cgroup_folders(cgroup_root, own_cgroups, "memory"):
        names = ("memory.max", "memory.current") if unified else ("memory.limit_in_bytes", "memory.usage_in_bytes")
        limit, used = (_read(folder / name) for name in names)
        if limit.isdigit() and used.isdigit():
            needed = max(0, int(used) - _file_bytes(folder, unified=unified))
            available = min(available, max(0, int(limit) - needed))
    return available


def versions() -> dict[str, str]:
    """Return the versions of the packages that measurements depend on, without importing them."""
    found = {}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def cgroup_folders(root: Path, own_cgroups: str | None, controller: str) -> Iterator[tuple[bool, Path]]:
    """Yield the folders of the process's cgroups up to the root, and whether each is of version 2.

    `own_cgroups` is the text of /proc/self/cgroup; None reads it.
    """
    text = _read(Path("/proc/self/cgroup")) if own_cgroups is None else own_cgroups
    for line in text.splitlines():
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if controllers == "":
            base = root
        elif controller in controllers.split(","):
            base = root / controller
        else:
            continue
        folder = base / path.lstrip("/")
        for ancestor in [folder, *folder.parents]:
            yield controllers == "", ancestor
            if ancestor == base:
                break


def _file_bytes(folder: Path, *, unified: bool) -> int:
    """Return the pages of files in a memory cgroup and those below it: in use, and given up before anything fails."""
    prefix = "" if unified else "total_"
    wanted = (f"{prefix}inactive_file", f"{prefix}active_file")
    rows = (line.split() for line in _read(folder / "memory.stat").splitlines())
    return sum(int(row[1]) for row in rows if len(row) == 2 and row[0] in wanted and row[1].isdigit())


def _quota_v2(folder: Path) -> float | None:
    quota, _, period = _read(folder / "cpu.max").partition(" ")
    return int(quota) / int(period) if quota.isdigit() and period.isdigit() else None


def _quota_v1(folder: Path) -> float | None:
    quota, period = _read(folder / "cpu.cfs_quota_us"), _read(folder / "cpu.cfs_period_us")
    return int(quota) / int(period) if quota.isdigit() and period.isdigit() else None


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _numbers(text: str) -> set[int]:
    """Return the numbers of a kernel list: "0,4-5" is {0, 4, 5}."""
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        low, _, high = part.partition("-")
        if low.isdigit() and (not high or high.isdigit()):
            found.update(range(int(low), int(high or low) + 1))
    return found


def _free_bytes(folder: str) -> int | None:
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return None


@functools.cache
def _cpu_name() -> str:
    for line in _read(Path("/proc/cpuinfo")).splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            return value.strip()
    return platform.processor() or platform.machine()


def _processes(handle: object) -> int:
    """Return how many compute processes are on a card; 0 where a container may not know."""
    import pynvml

    with suppress(pynvml.NVMLError):
        return len(pynvml.nvmlDeviceGetComputeRunningProcesses(handle))
    return 0


def _gpus() -> Iterator[Gpu]:
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return
    try:
        driver = str(pynvml.nvmlSystemGetDriverVersion())
        for index in range(pynvml.nvmlDeviceGetCount()):
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
            yield Gpu(
                index=index,
                name=str(pynvml.nvmlDeviceGetName(handle)),
                total_bytes=int(memory.total),
                free_bytes=int(memory.free),
                driver=driver,
                processes=_processes(handle),
                uuid=str(pynvml.nvmlDeviceGetUUID(handle)),
            )
    except pynvml.NVMLError:
        return  # a driver that answers half: report no card rather than half of one
    finally:
        pynvml.nvmlShutdown()
