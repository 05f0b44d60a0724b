"""Which file a path means in a trial: the one that was there, or the trial's own copy in its scratch folder."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from os import listdir, lstat, remove, rename, rmdir, scandir, stat  # as they are before they are guarded
from pathlib import Path
from stat import S_ISDIR, S_ISLNK

OPEN = ("/dev/", "/proc/", "/sys/", "/run/")
"""devices and the kernel's own files: written to as they are"""
SHARED_MEMORY = "/dev/shm"
"""only what is new there is written to: data that were staged there are somebody's"""

Name = str | bytes | os.PathLike[str] | os.PathLike[bytes]


class Redirect:
    """Copies on write: a path leads to its copy once there is one. Paths are whole ones; names may be relative."""

    def __init__(self, copies: Path, kept: Iterable[Path]) -> None:
        """`copies` takes the trial's own files, each under its whole path; what lies below `kept` stays as it is."""
        self._copies = str(copies)
        kept = tuple(kept)
        free = (self._copies, *map(os.path.realpath, kept), *map(os.path.abspath, kept))
        staged = listdir(SHARED_MEMORY) if _is_folder(SHARED_MEMORY) else []
        self._free = tuple(f"{folder}/" for folder in free)
        self._staged = tuple(f"{SHARED_MEMORY}/{name}/" for name in staged)
        self._gone: set[str] = set()
        """paths that were there and that this process removed; what was below them is gone, too"""

    def is_free(self, path: str) -> bool:
        """Whether it may be written to as it is."""
        path = f"{path}/"
        return path.startswith(self._free) or (path.startswith(OPEN) and not path.startswith(self._staged))

    def seen(self, path: str) -> str:
        """Return what is at a path; a link is not followed."""
        if self.is_free(path):
            return path
        copy = self._copies + path
        return copy if _there(copy) or self._is_gone(path) else path

    def reading(self, name: Name) -> str:
        """Return what a reader gets at a path."""
        path = self.whole(name)
        seen = self.seen(path)
        if seen == path and _is_link(path):
            return self.seen(os.path.realpath(path))
        return seen

    def entering(self, name: Name) -> str:
        """Return the folder that a process enters at a path: the original, since that of the copies has these alone."""
        seen = self.reading(name)
        path = self._original(seen)
        return path if _is_folder(path) and not self._is_gone(path) else self.reading(path)

    def itself(self, name: Name) -> str:
        """Return what is at a path, a link as such."""
        return self.seen(self.whole(name))

    def exists(self, name: Name) -> bool:
        return _there(self.seen(self.whole(name)))

    def writing(self, name: Name, *, fresh: bool = False) -> str:
        """Return the trial's own copy of a file, made where there is none; `fresh`: its old content is not wanted.

        Raises:
            FileNotFoundError: there is no such folder.
        """
        path = self.whole(name)
        if self.seen(path) == path and _is_link(path):
            path = os.path.realpath(path)
        if self.is_free(path):
            return path
        if not _is_folder(self.reading(os.path.dirname(path))):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        copy = self._copies + path
        os.makedirs(os.path.dirname(copy), exist_ok=True)
        if not fresh and self.seen(path) == path and _there(path):
            if _is_folder(path):
                os.makedirs(copy, exist_ok=True)
            else:
                shutil.copy2(path, copy)
        return copy

    def remove(self, name: Name, *, folder: bool = False) -> None:
        """Remove a file or an empty folder."""
        path = self.whole(name)
        seen = self.seen(path)
        if folder and _is_folder(seen) and self.names(path):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), path)
        fits = _there(seen) and folder == (_is_folder(seen) and not _is_link(seen))
        if seen != path or self.is_free(path) or not fits:  # the plain function says what does not fit
            (rmdir if folder else remove)(seen)
        if not self.is_free(path):
            self._gone.add(path)

    def rename(self, source: Name, target: Name) -> None:
        """Move a file or a folder."""
        old, new = self.whole(source), self.whole(target)
        if not _there(self.seen(old)):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), old, None, new)
        self._copy_all(old)
        here, there = self.writing(old), self.writing(new, fresh=True)
        if self.is_free(old) == self.is_free(new) or _is_folder(there):
            rename(here, there)
        else:  # a copy lies elsewhere than it seems, maybe on another disk
            shutil.move(here, there)
        if not self.is_free(old):
            self._gone.add(old)

    def names(self, name: Name) -> list[str]:
        """Return the names in a folder."""
        return [entry.name for entry in self.entries(name)]

    def entries(self, name: Name) -> Iterator[os.DirEntry[str]]:
        """Yield what is in a folder, of before and of the trial's own."""
        path = self.reading(name) if _is_link(self.whole(name)) else self.whole(name)
        copy = self._copies + path
        own = _is_folder(copy)
        if not own or (_is_folder(path) and not self._is_gone(path)):
            with scandir(path if own else self.seen(path)) as found:
                yield from (entry for entry in found if self._as_it_was(path, entry.name))
        if own:
            with scandir(copy) as found:
                yield from (entry for entry in found if not self.is_free(os.path.join(path, entry.name)))

    def whole(self, name: Name) -> str:
        """Return the whole path that a name means; where the process is in a folder of copies, as from the original."""
        path = os.fsdecode(name)
        return os.path.abspath(path if os.path.isabs(path) else os.path.join(self._original(os.getcwd()), path))

    def _original(self, path: str) -> str:
        """Return the path that a copy stands for; any other as it is."""
        return path.removeprefix(self._copies) if path.startswith(f"{self._copies}/") else path

    def _as_it_was(self, folder: str, name: str) -> bool:
        path = os.path.join(folder, name)
        return self.seen(path) == path

    def _copy_all(self, path: str) -> None:
        if self.is_free(path):
            return
        self.writing(path)
        if _is_folder(self.seen(path)):
            for item in listdir(path) if _is_folder(path) and path not in self._gone else []:
                if not self._is_gone(os.path.join(path, item)):
                    self._copy_all(os.path.join(path, item))

    def _is_gone(self, path: str) -> bool:
        if not self._gone:
            return False
        return path in self._gone or any(str(parent) in self._gone for parent in Path(path).parents)


def _there(path: str) -> bool:
    return _mode(path, lstat) is not None


def _is_folder(path: str) -> bool:
    return S_ISDIR(_mode(path, stat) or 0)


def _is_link(path: str) -> bool:
    return S_ISLNK(_mode(path, lstat) or 0)


def _mode(path: str, look: Callable[[str], os.stat_result]) -> int | None:
    try:
        return look(path).st_mode
    except (OSError, ValueError):
        return None
