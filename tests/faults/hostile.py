"""Mutations of files: what a damaged disk, another program or an enemy could leave in a run folder."""

from __future__ import annotations

import random
import re

NUMBER = re.compile(rb"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
STRING = re.compile(rb'"[^"\\]{0,80}"')
VALUES = [
    b"null", b"true", b"[]", b"{}", b'""', b"-1", b"0", b"[1,2]", b'{"x": 1}', b"\x00", b"\xff\xfe",
    b"1e999", b"-1e999", b"NaN", b"nan", b"inf", b"1e308", b"1e-320", b"9" * 25, b"9" * 400, b"9" * 6000,
    b"[" * 3000, b'{"a":' * 3000, b'"' + b"a" * 100_000 + b'"', b'"[bold red]x[/] \\u001b[31m\\u0000"',
    b"!!python/object/apply:os.system [x]", b"1979-05-27T07:32:00Z",
]  # fmt: skip
NAMES = [b'"__class__"', b'"__reduce__"', b'"self"', b'"x"', b'"format"', b'"\\ud800"', b'"<script>"', b'"../../x"']


def mutate(data: bytes, rng: random.Random) -> bytes:
    """Return `data` changed in one to three places."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        data = rng.choice(MUTATORS)(data, rng)
    return data


def _flip(data: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data or b"x")
    for _ in range(rng.choice((1, 1, 4, 64))):
        changed[rng.randrange(len(changed))] = rng.randrange(256)
    return bytes(changed)


def _cut(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _remove(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + data[at + rng.randrange(1, 400) :]


def _double(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    piece = data[at : at + rng.randrange(1, 400)]
    return data[:at] + piece + data[at:]


def _insert(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.choice(VALUES) + data[at:]


def _other_number(data: bytes, rng: random.Random) -> bytes:
    return _replace(data, NUMBER, VALUES, rng)


def _other_string(data: bytes, rng: random.Random) -> bytes:
    return _replace(data, STRING, VALUES + NAMES, rng)


def _replace(data: bytes, pattern: re.Pattern[bytes], values: list[bytes], rng: random.Random) -> bytes:
    places = list(pattern.finditer(data))
    if not places:
        return data
    place = rng.choice(places)
    return data[: place.start()] + rng.choice(values) + data[place.end() :]


MUTATORS = (
    _flip, _cut, _remove, _double, _insert, _other_number, _other_number, _other_number, _other_string, _other_string
)  # fmt: skip
