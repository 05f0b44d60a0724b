"""The files of the machine as one trial sees them: overlay mounts in a mount namespace of its own.

What the trial writes lands in a scratch folder, whoever writes it, loader workers and libraries in C included; later
reads of the trial see it. Needs leave of the system: root, or unprivileged user namespaces, Linux 5.14 or newer (6.6
for /dev/shm).
"""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import tempfile
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

CLONE_NEWNS, CLONE_NEWUSER = 0x00020000, 0x10000000  # unshare(2)
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 32, 4096, 16384, 1 << 18  # mount(2)
MNT_DETACH = 2  # umount(2)
PR_SET_PDEATHSIG = 1  # prctl(2)
KEPT = ("/dev/", "/proc/", "/sys/", "/run/", "/var/run/")
"""devices, the kernel's own files and sockets: as they are for everybody"""
SHARED_MEMORY = os.path.realpath("/dev/shm")
"""overlaid all the same: data that were staged there are somebody's"""
GLIBC = (2, 34)
"""the first that looks for shared memory in /dev/shm alone; those before take another tmpfs where that is an overlay"""
KERNEL_FILES = frozenset(
    (
        *("autofs", "binfmt_misc", "bpf", "cgroup", "cgroup2", "configfs", "debugfs", "devpts", "devtmpfs", "efivarfs"),
        *("fusectl", "hugetlbfs", "mqueue", "nsfs", "proc", "pstore", "rpc_pipefs", "securityfs", "selinuxfs", "sysfs"),
        "tracefs",
    )
)
"""file systems that hold no files of anybody's"""

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Place:
    """A part of the tree that is mounted again, held open: its path may soon lead elsewhere."""

    path: str
    descriptor: int
    kept: bool
    """it stays as it is, written to by the trial"""


def possible(scratch: Path, kept: Iterable[Path]) -> bool:
    """Return whether `enter` works here: a child tries it."""
    places = tuple(kept)
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            enter(scratch, places)
            status = 0
        finally:
            os._exit(status)
    return os.waitpid(pid, 0)[1] == 0


def enter(scratch: Path, kept: Iterable[Path]) -> None:
    """Let this process and its children write into `scratch` instead of anywhere but `kept` and `KEPT`.

    Raises:
        OSError: the system does not permit it; the process may be in half a namespace then.
    """
    here, was_writable = os.getcwd(), os.access(".", os.W_OK)
    _unshare()
    _mount("none", "/", "", MS_REC | MS_PRIVATE)
    # held open in the new namespace: nothing of the old one may be mounted here
    ours = _hold(str(scratch.resolve()), kept=True)
    kept_paths = sorted({str(path.resolve()) for path in kept})
    places = _parts(kept_paths)
    mounted = {place.path for place in places}
    kept_places = [_hold(path, kept=True) for path in kept_paths if path not in mounted]
    for number, place in enumerate(places):
        if place.kept:
            _bind(place)
        elif place.path == SHARED_MEMORY:
            _overlay_memory(place)
        elif not _overlay(place, Path(f"/proc/self/fd/{ours.descriptor}/{number}")):
            _bind(place)
            _mount("none", place.path, "", MS_BIND | MS_REMOUNT | MS_RDONLY)
    for place in kept_places:
        _bind(place)
    for place in (ours, *places, *kept_places):
        os.close(place.descriptor)
    # what lies in / itself; the mounts above it are not touched by that
    _mount("none", "/", "", MS_BIND | MS_REMOUNT | MS_RDONLY)
    os.chdir(here)
    if was_writable:  # by writing: a folder of another user's above it cannot be copied
        with tempfile.TemporaryFile(dir=here):
            pass


def _parts(kept: Collection[str]) -> list[Place]:
    """Return what to mount again, parents first: the folders in /, and what is mounted anywhere below."""
    root = os.stat("/").st_dev
    found: dict[str, bool] = {}
    for name in os.listdir("/"):
        path = f"/{name}"
        # links lead to one of the others; what is mounted there comes below
        if not os.path.islink(path) and os.path.isdir(path) and os.stat(path).st_dev == root:
            found[path] = False
    if os.path.isdir(SHARED_MEMORY):
        found[SHARED_MEMORY] = False
    for path, kind in _mounted():
        found[path] = kind in KERNEL_FILES
    parts = []
    for path in sorted(found, key=lambda path: (path.count("/"), path)):
        if path == "/" or not os.path.lexists(path):
            continue
        if f"{path}/".startswith(KEPT) and not f"{path}/".startswith(f"{SHARED_MEMORY}/"):
            continue  # nothing above them is mounted anew
        parts.append(_hold(path, kept=found[path] or path in kept))
    return parts


def _mounted() -> list[tuple[str, str]]:
    """Return path and file system of every mount, the one that is seen last."""
    found = []
    for line in Path("/proc/self/mountinfo").read_bytes().splitlines():
        fields, _, kind = line.partition(b" - ")
        path = fields.split()[4].decode("unicode_escape").encode("latin-1")
        found.append((os.fsdecode(path), os.fsdecode(kind.split()[0])))
    return found


def _hold(path: str, *, kept: bool) -> Place:
    return Place(path, os.open(path, os.O_PATH | os.O_CLOEXEC), kept)


def _unshare() -> None:
    """Get a mount namespace of our own; as root without a user namespace, which would take root's rights away."""
    if os.geteuid() == 0:
        _check(_libc.unshare(CLONE_NEWNS), "unshare")
        return
    user, group = os.geteuid(), os.getegid()
    _check(_libc.unshare(CLONE_NEWNS | CLONE_NEWUSER), "unshare")
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # a change of rights has cleared it


def _overlay(place: Place, scratch: Path) -> bool:
    """Overlay a folder; return whether that is possible: its file system may not permit it, and a file has none."""
    if not os.path.isdir(f"/proc/self/fd/{place.descriptor}"):
        return False
    upper, work = scratch / "upper", scratch / "work"
    upper.mkdir(parents=True, exist_ok=True)
    work.mkdir(exist_ok=True)
    info = os.stat(f"/proc/self/fd/{place.descriptor}")
    os.chmod(upper, info.st_mode & 0o7777)
    if os.geteuid() == 0:
        os.chown(upper, info.st_uid, info.st_gid)
    # volatile: nothing is kept, so nothing needs to reach the disk
    layers = f"volatile,lowerdir=/proc/self/fd/{place.descriptor},upperdir={upper},workdir={work},"
    try:
        _mount("overlay", place.path, "overlay", 0, layers + ("redirect_dir=on" if os.geteuid() == 0 else "userxattr"))
    except OSError:
        return False
    return True


def _overlay_memory(place: Place) -> None:
    """Overlay /dev/shm with memory of the trial's own, as much as is free there; leave it as it is where that fails."""
    room = os.statvfs(place.path)
    free = max(room.f_bavail, 1) * room.f_frsize if room.f_blocks else 0  # 0: no limit, as it has none itself
    _mount("tmpfs", place.path, "tmpfs", 0, f"size={free}")
    memory = _hold(place.path, kept=True)
    if not (memory_can_be_overlaid(place.path) and _overlay(place, Path(f"/proc/self/fd/{memory.descriptor}"))):
        _check(_libc.umount2(os.fsencode(place.path), MNT_DETACH), f"umount {place.path}")
    os.close(memory.descriptor)


def memory_can_be_overlaid(folder: str) -> bool:
    """Return whether programs find shared memory in an overlay of a tmpfs, and whether it can note what is removed."""
    library, version = platform.libc_ver()
    if library == "glibc" and tuple(map(int, version.split("."))) < GLIBC:
        return False
    try:  # a tmpfs takes those of others than root since Linux 6.6
        os.setxattr(folder, "trusted.autotune" if os.geteuid() == 0 else "user.autotune", b"")
    except OSError:
        return False
    return True


def _bind(place: Place) -> None:
    _mount(f"/proc/self/fd/{place.descriptor}", place.path, "", MS_BIND | MS_REC)


def _mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    done = _libc.mount(os.fsencode(source), os.fsencode(target), kind.encode(), flags, os.fsencode(data))
    _check(done, f"mount {target}")


def _check(status: int, what: str) -> None:
    if status != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
