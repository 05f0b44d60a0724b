"""What the libraries do while samples are read: files opened, images decoded and shrunk, archives unpacked."""

from __future__ import annotations

import functools
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from autotune.doctor.lines import Line, line_of

CODE = (".py", ".pyc", ".pyi", ".so")
SYSTEM = ("/proc/", "/sys/", "/dev/")
TAG = "_autotune_decoded"


@dataclass
class Decoded:
    """One image that was decoded."""

    decoder: str
    """"PIL" or "cv2" """
    encoded: str | bytes | None
    """its file, or the bytes where they lay in memory; None: not known"""
    format: str
    size: tuple[int, int]
    seconds: float
    line: Line | None
    shrunk: float | None = None
    """how many times a side was made smaller later on, the least of both sides; None: it was not resized"""
    shrunk_at: Line | None = None
    done_at: float = 0.0
    """by the clock, when it was decoded"""
    worked_s: float = 0.0
    """from then to the end of the last resize: work on its pixels"""


@dataclass
class Seen:
    """What was seen while so many samples were read."""

    samples: int = 0
    sample_s: float = 0.0
    bytes_read: int = 0
    opens: Counter[Line] = field(default_factory=Counter)
    files: dict[str, int] = field(default_factory=dict)
    """files that were opened for reading, with how often"""
    decoded: list[Decoded] = field(default_factory=list)
    unpacked: dict[tuple[str, Line | None], float] = field(default_factory=dict)
    """seconds inside archives, by what was done and the user's line"""
    unpacked_opens: Counter[str] = field(default_factory=Counter)
    """archives that were opened, by kind"""


_active: list[Seen] = []  # the audit hook stays for the process's life: it works while something is in here


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if event != "open" or not _active:
        return
    path, mode, flags = (*arguments, None, None, None)[:3]
    writes = isinstance(mode, str) and any(letter in mode for letter in "wax+")
    if isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR):
        writes = True
    if not isinstance(path, str | bytes) or writes:
        return
    name = os.fsdecode(path)
    if name.endswith(CODE) or name.startswith(SYSTEM):
        return
    line = line_of(sys._getframe(1))
    if line is not None:
        name = os.path.abspath(name)
        _active[-1].opens[line] += 1
        _active[-1].files[name] = _active[-1].files.get(name, 0) + 1


@functools.cache
def _install_audit() -> None:
    sys.addaudithook(_audit)


@contextmanager
def watching() -> Iterator[Seen]:
    """Note what happens inside; libraries that are not loaded yet are not watched."""
    _install_audit()
    seen = Seen()
    with ExitStack() as stack:
        for watch in (_pillow, _opencv, _archives, _hdf5):
            stack.enter_context(watch(seen))
        _active.append(seen)
        stack.callback(_active.remove, seen)
        yield seen


@contextmanager
def _replaced(owner: Any, name: str, make: Callable[[Any], Any]) -> Iterator[None]:
    """Put another function in the place of `owner.name`: `make` is given the original."""
    had_own = name in vars(owner)
    original = getattr(owner, name)
    setattr(owner, name, functools.wraps(original)(make(original)))
    try:
        yield
    finally:
        if had_own:
            setattr(owner, name, original)
        else:
            delattr(owner, name)


@contextmanager
def _pillow(seen: Seen) -> Iterator[None]:
    """Note the images that Pillow decodes, and by how much they are made smaller."""
    try:
        from PIL import Image, ImageFile
    except ImportError:
        yield
        return

    def load(original: Any) -> Any:
        def watched(image: Any) -> Any:
            if not getattr(image, "tile", None):  # decoded already
                return original(image)
            encoded = _encoded(image)
            began = time.perf_counter()
            result = original(image)
            took = time.perf_counter() - began
            line = line_of(sys._getframe(1))
            noted = Decoded("PIL", encoded, str(image.format), image.size, took, line, done_at=time.perf_counter())
            seen.decoded.append(noted)
            image.__dict__[TAG] = noted
            return result

        return watched

    def new(original: Any) -> Any:
        def watched(image: Any, *args: Any) -> Any:
            made = original(image, *args)
            if TAG in image.__dict__:
                made.__dict__[TAG] = image.__dict__[TAG]
            return made

        return watched

    def blend(original: Any) -> Any:
        def watched(first: Any, second: Any, alpha: float) -> Any:
            made = original(first, second, alpha)
            if TAG in second.__dict__:  # the first is often a plain one: ImageEnhance.Brightness
                made.__dict__[TAG] = second.__dict__[TAG]
            return made

        return watched

    def resize(original: Any) -> Any:
        def watched(image: Any, size: Any, resample: Any = None, box: Any = None, *args: Any, **kwargs: Any) -> Any:
            image.load()
            width, height = image.size if box is None else (box[2] - box[0], box[3] - box[1])
            result = original(image, size, resample, box, *args, **kwargs)
            _note_shrunk(image.__dict__.get(TAG), (width, height), tuple(size))
            return result

        return watched

    with (
        _replaced(ImageFile.ImageFile, "load", load),
        _replaced(Image.Image, "_new", new),
        _replaced(Image.Image, "resize", resize),
        _replaced(Image, "blend", blend),
    ):
        yield


def _encoded(image: Any) -> str | bytes | None:
    if image.filename:
        return os.path.abspath(os.fsdecode(image.filename))
    contents = getattr(image.fp, "getvalue", None)
    return bytes(contents()) if callable(contents) else None


def _note_shrunk(decoded: Decoded | None, before: tuple[float, float], after: tuple[int, ...]) -> None:
    if decoded is None or len(after) != 2 or not all(after):
        return
    decoded.worked_s = time.perf_counter() - decoded.done_at
    factor = min(before[0] / after[0], before[1] / after[1])
    if decoded.shrunk is None or factor < decoded.shrunk:
        decoded.shrunk, decoded.shrunk_at = factor, line_of(sys._getframe(2))


@contextmanager
def _opencv(seen: Seen) -> Iterator[None]:
    """The same for OpenCV, where it is loaded; arrays carry no mark, so that a resize belongs to the last decode."""
    cv2 = sys.modules.get("cv2")
    if cv2 is None or not hasattr(cv2, "imdecode"):
        yield
        return

    def decode(original: Any) -> Any:
        def watched(source: Any, *args: Any, **kwargs: Any) -> Any:
            began = time.perf_counter()
            result = original(source, *args, **kwargs)
            took = time.perf_counter() - began
            if result is not None:
                encoded = os.path.abspath(source) if isinstance(source, str) else bytes(source)
                size = (result.shape[1], result.shape[0])
                line = line_of(sys._getframe(1))
                at = time.perf_counter()
                seen.decoded.append(Decoded("cv2", encoded, _format(encoded), size, took, line, done_at=at))
            return result

        return watched

    def resize(original: Any) -> Any:
        def watched(source: Any, dsize: Any = None, *args: Any, **kwargs: Any) -> Any:
            result = original(source, dsize, *args, **kwargs)
            if seen.decoded and seen.decoded[-1].decoder == "cv2":
                size = (result.shape[1], result.shape[0])
                _note_shrunk(seen.decoded[-1], (source.shape[1], source.shape[0]), size)
            return result

        return watched

    with (
        _replaced(cv2, "imread", decode),
        _replaced(cv2, "imdecode", decode),
        _replaced(cv2, "resize", resize),
    ):
        yield


def _format(encoded: str | bytes) -> str:
    if isinstance(encoded, str):
        with open(encoded, "rb") as file:
            encoded = file.read(8)
    return "JPEG" if encoded[:3] == b"\xff\xd8\xff" else "PNG" if encoded[:4] == b"\x89PNG" else "other"


@contextmanager
def _archives(seen: Seen) -> Iterator[None]:
    """Note the time inside Python's own archives; a call inside another belongs to the outer one."""
    import bz2
    import gzip
    import lzma
    import tarfile
    import zipfile

    stored = zipfile.ZIP_STORED
    timed: list[tuple[Any, str, str, str, Callable[..., bool]]] = [
        (gzip, "decompress", "gzip", "unpacked", lambda *_: True),
        (zipfile.ZipFile, "__init__", "zip", "opened", lambda *_: True),
        (zipfile.ZipExtFile, "read", "zip", "unpacked", lambda file, *_: file._compress_type != stored),
        (zipfile.ZipExtFile, "read1", "zip", "unpacked", lambda file, *_: file._compress_type != stored),
        (zipfile.ZipExtFile, "seek", "zip", "unpacked", lambda file, *_: file._compress_type != stored),
        (tarfile.TarFile, "__init__", "tar", "opened", lambda *_: True),
        (tarfile.TarFile, "getmember", "tar", "searched", lambda *_: True),
        (tarfile.TarFile, "extractfile", "tar", "searched", lambda *_: True),
    ]
    for kind, owner in (("gzip", gzip.GzipFile), ("bz2", bz2.BZ2File), ("lzma", lzma.LZMAFile)):
        timed += [(owner, name, kind, "unpacked", lambda *_: True) for name in ("read", "read1", "readline", "seek")]
    with ExitStack() as stack:
        inside: list[str] = []
        for owner, name, kind, done, counts in timed:
            make = functools.partial(_timing, seen, inside, kind, done, counts)
            stack.enter_context(_replaced(owner, name, make))
        yield


def _timing(
    seen: Seen,
    inside: list[str],
    kind: str,
    done: str,
    counts: Callable[..., bool],
    original: Any,
) -> Any:
    def watched(*args: Any, **kwargs: Any) -> Any:
        if inside or not counts(*args):
            return original(*args, **kwargs)
        inside.append(kind)
        began = time.perf_counter()
        try:
            return original(*args, **kwargs)
        finally:
            took = time.perf_counter() - began
            inside.pop()
            key = f"{kind} {done}", line_of(sys._getframe(1))
            seen.unpacked[key] = seen.unpacked.get(key, 0.0) + took
            seen.unpacked_opens[kind] += done == "opened"

    return watched


@contextmanager
def _hdf5(seen: Seen) -> Iterator[None]:
    """Note reads of compressed HDF5 datasets, where h5py is loaded."""
    h5py = sys.modules.get("h5py")
    if h5py is None:
        yield
        return
    make = functools.partial(_timing, seen, [], "HDF5", "unpacked", lambda data, *_: data.compression is not None)
    with _replaced(h5py.Dataset, "__getitem__", make):
        yield
