"""Locks: one search at a time measures on a device, and one writes to a run folder.

They are flock(2) locks, which the kernel takes from a holder that dies, however it dies.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from autotune.errors import DeviceBusy, RunFolderError
from autotune.machine import Gpu, Machine

FOLDER_VARIABLE = "AUTOTUNE_LOCKS"
"""environment variable that names another folder for the locks of devices"""
POLL_S = 0.5
MAX_HOLDER_BYTES = 4096


class DeviceLock:
    """Holds one device of this machine; two names of one card are one lock, and the CPU counts as a device."""

    def __init__(self, name: str, script: str, folder: Path | None = None) -> None:
        """`name` comes from `lock_name`; `script` is what others are told of the holder."""
        self._name, self._script = name, script
        self._folder = folder or lock_folder()
        self._descriptor: int | None = None

    @property
    def path(self) -> Path:
        return self._folder / f"{self._name}.lock"

    def acquire(self, tell: Callable[[str], None], *, wait: bool = False) -> None:
        """Take the lock; where the folder for it cannot be used, say so and go on without.

        Raises:
            DeviceBusy: another search holds it and `wait` is False; names that search.
        """
        try:
            self._make_folder()
            held = self._try()
        except OSError as error:
            tell(f"no lock on {self._name}: {self._folder} cannot be used: {error.strerror}")
            return
        told = False
        while not held:
            holder = self._holder()
            if not wait:
                raise DeviceBusy(
                    f"{self._name} is being measured by {holder}; two at once would disturb each other's times",
                    hint="Wait for it: --wait. Measure beside it all the same: --no-lock.",
                )
            if not told:
                tell(f"waiting for {holder}, which measures on {self._name}; Ctrl-C ends the wait")
            told = True
            time.sleep(POLL_S)
            held = self._try()

    def release(self) -> None:
        """Let go, if held; leaves no file."""
        if self._descriptor is not None:
            self.path.unlink(missing_ok=True)
            os.close(self._descriptor)
            self._descriptor = None

    def _make_folder(self) -> None:
        """Make the folder for this user alone: nobody else shall place or hold a lock there."""
        self._folder.mkdir(mode=0o700, exist_ok=True)
        found = self._folder.lstat()
        if found.st_uid != os.getuid() or not self._folder.is_dir() or self._folder.is_symlink():
            raise PermissionError(1, "it is not this user's folder")

    def _try(self) -> bool:
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # a holder removes its file as it goes: a lock on a file that has gone holds nothing
            if os.fstat(descriptor).st_ino != self.path.stat().st_ino:
                raise FileNotFoundError(self.path)
        except (BlockingIOError, FileNotFoundError):
            os.close(descriptor)
            return False
        self._descriptor = descriptor
        said = {"pid": os.getpid(), "script": self._script, "at": time.time()}
        with suppress(OSError):  # a full disk: others are not told who it is
            os.ftruncate(descriptor, 0)
            os.write(descriptor, json.dumps(said).encode())
        return True

    def _holder(self) -> str:
        try:
            with self.path.open("rb") as file:
                said = json.loads(file.read(MAX_HOLDER_BYTES))
            since = datetime.fromtimestamp(float(said["at"]))
            return f"process {int(said['pid'])} ({said['script']}, since {since:%Y-%m-%d %H:%M})"
        except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
            return "another search"  # it has this moment taken the lock, or gone


class DeviceLocks:
    """The locks of one search: the device that was asked for, and the one that the probe found."""

    def __init__(self, script: str, tell: Callable[[str], None], *, wait: bool = False, enabled: bool = True) -> None:
        self._script, self._tell, self._wait, self._enabled = script, tell, wait, enabled
        self._held: dict[str, DeviceLock] = {}

    def take(self, device: str) -> None:
        """Take the lock of a device, unless it is held already.

        Raises:
            DeviceBusy: see `DeviceLock.acquire`.
        """
        if not self._enabled:
            return
        name = lock_name(device, Machine.read().gpus)
        if name not in self._held:
            lock = DeviceLock(name, self._script)
            lock.acquire(self._tell, wait=self._wait)
            self._held[name] = lock

    def release(self) -> None:
        while self._held:
            self._held.popitem()[1].release()


class FolderLock:
    """Keeps a second search out of a run folder. The lock is on the folder itself and leaves nothing behind."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """Take it.

        Raises:
            RunFolderError: another search holds it.
        """
        self._descriptor = os.open(self._folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.release()
            raise RunFolderError(
                f"another search is writing to {self._folder}", hint="Name another folder with --out FOLDER."
            ) from None
        except OSError:
            return  # a file system without locks

    def release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def lock_folder() -> Path:
    """Return the folder for locks of devices: one for each user, the same whatever TMPDIR says."""
    named = os.environ.get(FOLDER_VARIABLE)
    return Path(named) if named else Path(f"/tmp/autotune-{os.getuid()}")


def lock_name(device: str, gpus: Sequence[Gpu], environ: Mapping[str, str] = os.environ) -> str:
    """Return one name for one piece of hardware: "cpu", or a card by its UUID where the driver tells.

    Args:
        device: as the user named it; empty: the best there is.
        gpus: as the driver sees them, none hidden.
    """
    kind, _, number = (device or ("cuda" if gpus else "cpu")).partition(":")
    if kind != "cuda":
        return f"{kind}-{number}" if number else kind
    shown = environ.get("CUDA_VISIBLE_DEVICES")
    index = int(number) if number.isdigit() else 0
    if shown is not None:
        entries = [entry.strip() for entry in shown.split(",")]
        chosen = entries[index] if index < len(entries) else ""
        if not chosen.isdigit():
            known = next((gpu.uuid for gpu in gpus if chosen and gpu.uuid.startswith(chosen)), chosen)
            return "".join(letter for letter in known if letter.isalnum() or letter in "-_") or "cuda"
        index = int(chosen)
    # CUDA numbers cards by their speed, the driver by their place; among different ones nobody knows which is meant
    alike = environ.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID" or len({gpu.name for gpu in gpus}) < 2
    uuid = gpus[index].uuid if alike and index < len(gpus) else ""
    return uuid or f"cuda-{index}"
