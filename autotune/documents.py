"""Dataclasses as JSON documents and back, checked field by field: what crosses a process or a file is data only."""

from __future__ import annotations

import dataclasses
import enum
import json
import os
import stat
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from autotune.records import FORMAT, TrialRecord

T = typing.TypeVar("T")
MAX_BYTES = 64 << 20  # of a document: the largest record that was ever written is a hundredth of this
LARGEST = 1 << 63  # of any number: beyond it figures could not be computed with
SMALLEST = 1e-100  # of any but 0: a quotient would overflow
POSITIVE = frozenset({"sample_s", "step_s", "samples_per_step", "samples_per_epoch", "steps_per_epoch"})
MAY_BE_INFINITE = ("uncertainty", "losses")


def to_json(value: Any) -> str:
    """Return a record, spec or any other dataclass of the project as JSON text."""
    return json.dumps(dataclasses.asdict(value), allow_nan=True)


def from_json(kind: type[T], text: str) -> T:
    """Read back what `to_json` wrote.

    Raises:
        ValueError: the text is not such a document; says where.
    """
    try:
        built: T = _build(kind, json.loads(text), kind.__name__)
        return built
    except RecursionError:
        raise ValueError(f"not a {kind.__name__}: nested too deeply") from None


def from_plain(kind: type[T], data: Mapping[str, Any]) -> T:
    """Make parsed JSON a dataclass of the project.

    Raises:
        ValueError: the data are not such a document; says where.
    """
    built: T = _build(kind, dict(data), kind.__name__)
    return built


def read_text(path: Path, most_bytes: int = MAX_BYTES) -> str:
    """Read a document's text, whatever stands in the place of the file: never more than `most_bytes` of it.

    Raises:
        ValueError: too large, not UTF-8, or no file.
        OSError: it cannot be read.
    """
    # a pipe in the place of the file would be waited for
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError("not a regular file")
        data = file.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise ValueError(f"larger than {most_bytes >> 20} MiB, so it is no file of autotune's")
    return data.decode("utf-8")


def read_record(path: Path) -> TrialRecord:
    """Read a trial's record from disk.

    Raises:
        ValueError: damaged, or of a format that this version does not know.
    """
    try:
        data = json.loads(read_text(path))
        written = data.get("format", FORMAT) if isinstance(data, dict) else FORMAT
        if written != FORMAT:  # before anything else: another format may have other fields
            raise ValueError(f"format {written}; this version reads {FORMAT}")
        record: TrialRecord = _build(TrialRecord, data, TrialRecord.__name__)
        return record
    except (ValueError, OSError) as error:
        raise ValueError(f"{path}: {error}") from None
    except RecursionError:
        raise ValueError(f"{path}: not a record: nested too deeply") from None


def _build(kind: Any, value: Any, where: str) -> Any:
    """Make `value` (parsed JSON) the type `kind`, checking as it goes."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        _check_inside(value, where)
        return value
    if origin in (types.UnionType, typing.Union):
        if value is None and type(None) in arguments:
            return None
        (kind,) = (argument for argument in arguments if argument is not type(None))
        return _build(kind, value, where)
    if origin is tuple:
        if not isinstance(value, list):
            raise ValueError(f"{where} is not a list")
        return tuple(_build(arguments[0], item, f"{where}[{index}]") for index, item in enumerate(value))
    if dataclasses.is_dataclass(kind):
        return _build_dataclass(kind, value, where)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return kind(value)
    _check_inside(value, where)  # before it is made a float, which it may be too large for
    if kind is float and type(value) is int:
        return float(value)
    expected = origin or kind
    if expected is Mapping or expected.__name__ == "Mapping":
        expected = dict
    if not isinstance(value, expected) or (isinstance(value, bool) and kind is not bool):
        raise ValueError(f"{where} is not {'a table' if expected is dict else kind.__name__}")
    return value


def _check_inside(value: Any, where: str) -> None:
    """Check a number, and each one in a table or list of no fixed form."""
    if isinstance(value, dict):
        for name, item in value.items():
            _check_inside(item, f"{where}.{name}")
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            _check_inside(item, f"{where}[{index}]")
    elif type(value) in (int, float):
        _check_number(value, where)


def _check_number(value: float, where: str) -> None:
    """Refuse numbers that no measurement yields and that later arithmetic would stumble over."""
    name = where.rpartition(".")[2].partition("[")[0]
    sound = value == 0 or SMALLEST <= abs(value) <= LARGEST
    if not (sound or name in MAY_BE_INFINITE or "numerics." in where):  # a step that diverged is compared, too
        raise ValueError(f"{where} is not a number that can be")
    if value < 0 and name.endswith("_s") and "measurement." in where:
        raise ValueError(f"{where} is a negative time")
    if value <= 0 and name in POSITIVE:
        raise ValueError(f"{where} is not positive")


def _build_dataclass(kind: Any, value: Any, where: str) -> Any:
    if not isinstance(value, dict):
        raise ValueError(f"{where} is not a table")
    hints = typing.get_type_hints(kind)
    known = {item.name for item in dataclasses.fields(kind)}
    extra = set(value) - known
    if extra:
        raise ValueError(f"{where} has unknown fields: {', '.join(sorted(extra))}")
    try:
        return kind(**{name: _build(hints[name], item, f"{where}.{name}") for name, item in value.items()})
    except TypeError as error:
        raise ValueError(f"{where} is incomplete: {error}") from None
