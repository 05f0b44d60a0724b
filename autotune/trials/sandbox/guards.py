"""Functions of Python and torch that write files, led to the trial's scratch folder: where no overlay is permitted.

Workers that are forked have them, too. What writes by itself, as libraries in C do, is refused: by the kernel, or as
far as Python's audit events show it.
"""

from __future__ import annotations

import builtins
import errno
import functools
import io
import os
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from autotune.trials.sandbox.redirect import Redirect

WRITE_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
READERS = ("stat", "access", "statvfs", "getxattr", "listxattr")
OF_LINKS = ("lstat", "readlink")
CHANGERS = ("chmod", "lchown", "chown", "utime", "truncate", "setxattr")
WATCHED = {"os.remove": 0, "os.rmdir": 0, "os.mkdir": 0, "os.truncate": 0, "sqlite3.connect": 0,
           "os.rename": 1, "os.link": 1, "os.symlink": 1}  # fmt: skip
"""audit events of changes, and which of their arguments is the path"""

_redirect: Redirect


def enter(copies: Path, kept: Iterable[Path], temporary: Path) -> None:
    """Lead this process's writes to `copies`; temporary files go to `temporary`."""
    global _redirect
    temporary.mkdir(parents=True, exist_ok=True)
    copies.mkdir(parents=True, exist_ok=True)
    _redirect = redirect = Redirect(copies, (*kept, temporary))
    tempfile.tempdir = os.environ["TMPDIR"] = str(temporary)
    sys.dont_write_bytecode = True
    for name in READERS:
        _wrap(os, name, redirect.reading)
    _wrap(os, "chdir", redirect.entering)
    for name in OF_LINKS:
        _wrap(os, name, redirect.itself)
    for name in CHANGERS:
        _wrap(os, name, redirect.writing)
    _wrap(sqlite3, "connect", _database)
    _guard_opens(redirect)
    _guard_folders(redirect)
    _guard_torch(redirect)


def refuse_others() -> None:
    """Refuse the writes that come past the guards, as far as Python's audit events show them."""
    redirect = _redirect

    def look(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = arguments
            writes = isinstance(flags, int) and flags & WRITE_FLAGS
        elif event in WATCHED:
            path, writes = arguments[WATCHED[event]], True
        else:
            return
        if writes and isinstance(path, str | bytes | os.PathLike) and os.fsdecode(path) != ":memory:":
            whole = os.path.abspath(os.fsdecode(path))
            if not redirect.is_free(whole):
                raise PermissionError(errno.EACCES, "a trial may not write here", whole)

    sys.addaudithook(look)


def _wrap(module: Any, name: str, lead: Callable[[Any], Any]) -> None:
    """Lead the first argument of a function, where it is a path and not relative to an open folder."""
    plain = getattr(module, name)

    @functools.wraps(plain)
    def guarded(path: Any, *args: Any, **kwargs: Any) -> Any:
        return plain(lead(path) if _is_path(path) and kwargs.get("dir_fd") is None else path, *args, **kwargs)

    setattr(module, name, guarded)


def _is_path(value: Any) -> bool:
    return isinstance(value, str | bytes | os.PathLike)


def _database(path: Any) -> Any:
    text = os.fsdecode(path)
    return path if text in ("", ":memory:") or text.startswith("file:") else _redirect.writing(path)


def _guard_opens(redirect: Redirect) -> None:
    plain_open, plain_os_open = builtins.open, os.open

    @functools.wraps(plain_open)
    def guarded_open(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        if _is_path(file):
            if "x" in mode:
                _refuse_existing(redirect, file)
            changes = any(letter in mode for letter in "wxa+")
            file = redirect.writing(file, fresh=mode[:1] in "wx") if changes else redirect.reading(file)
        return plain_open(file, mode, *args, **kwargs)

    @functools.wraps(plain_os_open)
    def guarded_os_open(path: Any, flags: int, *args: Any, **kwargs: Any) -> int:
        if _is_path(path) and kwargs.get("dir_fd") is None:
            if flags & os.O_EXCL and flags & os.O_CREAT:
                _refuse_existing(redirect, path)
            changes = flags & WRITE_FLAGS and not flags & os.O_PATH and (flags & os.O_CREAT or redirect.exists(path))
            path = redirect.writing(path, fresh=bool(flags & os.O_TRUNC)) if changes else redirect.reading(path)
        return plain_os_open(path, flags, *args, **kwargs)

    builtins.open = io.open = guarded_open
    os.open = guarded_os_open


def _guard_folders(redirect: Redirect) -> None:
    plain: dict[str, Any] = {name: getattr(os, name) for name in ("mkdir", "link", "symlink", "scandir", "listdir")}

    def mkdir(path: Any, *args: Any, **kwargs: Any) -> None:
        _refuse_existing(redirect, path)
        plain["mkdir"](redirect.writing(path, fresh=True), *args, **kwargs)

    def link(source: Any, target: Any, **kwargs: Any) -> None:
        _refuse_existing(redirect, target)
        plain["link"](redirect.writing(source), redirect.writing(target, fresh=True), **kwargs)

    def symlink(source: Any, target: Any, *args: Any, **kwargs: Any) -> None:
        _refuse_existing(redirect, target)
        plain["symlink"](source, redirect.writing(target, fresh=True), *args, **kwargs)

    def listdir(path: Any = ".") -> Any:
        return redirect.names(path) if _is_path(path) else plain["listdir"](path)

    def scan(path: Any = ".") -> Any:
        return Entries(redirect.entries(path)) if _is_path(path) else plain["scandir"](path)

    for name, folder in (("remove", False), ("unlink", False), ("rmdir", True)):
        setattr(os, name, _removing(redirect, getattr(os, name), folder))
    for name in ("rename", "replace"):
        setattr(os, name, lambda source, target, **_: redirect.rename(source, target))
    for function in (mkdir, link, symlink, listdir):
        setattr(os, function.__name__, function)
    os.scandir = scan
    shutil._use_fd_functions = False  # type: ignore[attr-defined]  # rmtree by paths, which are guarded


def _removing(redirect: Redirect, plain: Callable[..., None], folder: bool) -> Callable[..., None]:
    def remove(path: Any, *, dir_fd: Any = None) -> None:
        if dir_fd is not None:
            plain(path, dir_fd=dir_fd)
        else:
            redirect.remove(path, folder=folder)

    return remove


def _refuse_existing(redirect: Redirect, path: Any) -> None:
    if redirect.exists(path):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), os.fsdecode(path))


class Entries:
    """What os.scandir returns."""

    def __init__(self, entries: Iterator[os.DirEntry[str]]) -> None:
        self._entries = iter(list(entries))

    def __iter__(self) -> Entries:
        return self

    def __next__(self) -> os.DirEntry[str]:
        return next(self._entries)

    def __enter__(self) -> Entries:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._entries = iter(())


def _guard_torch(redirect: Redirect) -> None:
    import torch  # a trial has it; the steering process reads this module without

    save, load = torch.save, torch.load

    @functools.wraps(save)
    def guarded_save(obj: Any, f: Any, *args: Any, **kwargs: Any) -> None:
        save(obj, redirect.writing(f, fresh=True) if _is_path(f) else f, *args, **kwargs)

    @functools.wraps(load)
    def guarded_load(f: Any, *args: Any, **kwargs: Any) -> Any:
        return load(redirect.reading(f) if _is_path(f) else f, *args, **kwargs)

    torch.save, torch.load = guarded_save, guarded_load
    torch.serialization.save, torch.serialization.load = guarded_save, guarded_load
