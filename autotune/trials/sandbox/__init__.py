"""A trial never changes a file that existed before it: what it writes lands in a scratch folder.

By overlay mounts where the system permits them (`overlay`: everything is covered, C code and loader workers too),
otherwise by guarded functions of Python (`guards`), with the kernel refusing what goes past them (`landlock`).
Nothing here costs anything in a step that opens no file.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from autotune.errors import text_of
from autotune.trials.sandbox import guards, landlock, overlay

OVERLAY, GUARDS = "overlay", "guards"
WAY_VARIABLE = "AUTOTUNE_SANDBOX"
"""environment variable that forces one of the two ways"""
REFUSED = (
    "permission denied",
    "read-only file system",
    "os error 13",
    "os error 30",
    "value too large for defined data",
)
"""texts of errors of libraries that were refused a write, in lower case"""
NUMBERS = (errno.EROFS, errno.EACCES, errno.EPERM, errno.EOVERFLOW, errno.EXDEV)

_entered = False


@dataclass(frozen=True)
class Sandbox:
    """Where one trial may write."""

    scratch: Path
    """takes what the trial writes; removed after it"""
    kept: tuple[Path, ...]
    """folders of the tool's own that the trial writes to as they are"""


def way_here(sandbox: Sandbox) -> str:
    """Return the way that works on this machine, by trying it in a child."""
    wanted = os.environ.get(WAY_VARIABLE, "")
    if wanted in (OVERLAY, GUARDS):
        return wanted
    return OVERLAY if overlay.possible(sandbox.scratch / "try", sandbox.kept) else GUARDS


def enter(sandbox: Sandbox, way: str, temporary: Path) -> None:
    """Let this process and its children write into the scratch folder alone; there is no way back.

    Args:
        temporary: a folder for temporary files, where the usual one is closed.
    """
    global _entered
    kept = (*sandbox.kept, *(path for path in _caches() if path.is_dir()))
    if way == OVERLAY:
        overlay.enter(sandbox.scratch, kept)
    else:
        guards.enter(sandbox.scratch / "files", kept, temporary)
        if not landlock.enter((sandbox.scratch, *kept, temporary)):
            guards.refuse_others()
    _entered = True


def refusal(error: BaseException) -> str:
    """Return what to tell where an error says that a write was refused; empty where it says something else."""
    if not _entered:
        return ""
    refused = isinstance(error, OSError) and error.errno in NUMBERS
    if not refused and not any(text in text_of(error).lower() for text in REFUSED):
        return ""
    name = getattr(error, "filename", None)
    what = f"a write to {os.fsdecode(name)}" if isinstance(name, str | bytes) else "a write"
    return (
        f"If that is {what}: a trial changes no files, and this write could not be led to its scratch folder. "
        "--no-sandbox lets trials write as the script does."
    )


def remove(scratch: Path) -> None:
    """Remove what a trial wrote; overlays leave folders behind that nobody may look into, one in the other."""
    for folder, names, _ in os.walk(scratch):
        for path in (os.path.join(folder, name) for name in names):
            if not os.path.islink(path):
                with suppress(OSError):
                    os.chmod(path, 0o700)
    shutil.rmtree(scratch, ignore_errors=True)


def _caches() -> Sequence[Path]:
    """Return what the driver writes for everybody, and where CUDA's server of many processes meets its clients."""
    nvidia = Path(os.environ.get("CUDA_CACHE_PATH") or Path.home() / ".nv/ComputeCache")
    server = Path(os.environ.get("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps"))
    return (nvidia, server, Path("/dev/shm")) if server.is_dir() else (nvidia,)
