"""The configs that a proposal chooses from: all of a small space, a sample and the neighbourhood of the best
in a large one."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from autotune.config import Config
from autotune.search.model.encoding import INERT, Encoding, Rows

ENUMERATED = 200_000  # largest space that is enumerated whole: about a second of linear algebra
DRAWN = 50_000  # configs drawn at random from a larger one


def count(encoding: Encoding) -> int:
    """Return the number of canonical configs."""

    def ways(column: int) -> int:
        """Return the number of ways to set an option together with those that need it."""
        children = [child for child, parent in enumerate(encoding.parent) if parent == column]
        below = math.prod(ways(child) for child in children)
        default = 1 if 0 <= encoding.default[column] < encoding.offered[column] else 0
        return default + (encoding.offered[column] - default) * below

    return math.prod(ways(column) for column, parent in enumerate(encoding.parent) if parent is None)


def everything(encoding: Encoding) -> Rows:
    """Return every canonical config once."""
    rows = np.full((1, len(encoding.names)), INERT, dtype=np.int16)
    for column in encoding.order:
        inert = encoding.inert(column, rows)
        active = rows[~inert]
        levels = encoding.offered[column]
        grown = np.repeat(active, levels, axis=0)
        grown[:, column] = np.tile(np.arange(levels, dtype=np.int16), len(active))
        rows = np.concatenate([rows[inert], grown])
    return encoding.canonical(rows) if encoding.space.decided else rows


def drawn(encoding: Encoding, number: int, rng: np.random.Generator) -> Rows:
    """Return canonical configs drawn at random, every level of an option equally likely."""
    columns = [rng.integers(0, offered, number, dtype=np.int16) for offered in encoding.offered]
    return distinct(encoding, encoding.canonical(np.stack(columns, axis=1)))


def neighbours(encoding: Encoding, rows: Rows, changes: int = 2) -> Rows:
    """Return the configs that differ from one of `rows` in at most `changes` options."""
    reached = rows
    for _ in range(changes):
        grown = [reached]
        for column, offered in enumerate(encoding.offered):
            for level in range(offered):
                moved = reached[~encoding.inert(column, reached)]
                moved[:, column] = level
                grown.append(moved)
        reached = distinct(encoding, encoding.canonical(np.concatenate(grown)))
    return reached


def refined(encoding: Encoding, rows: Rows, name: str) -> Rows:
    """Return `rows` and what is one change away, moved to the values that lie beside the choices of one option.

    Only values up to the next choice on either side count.
    """
    if name not in encoding.column or not len(rows):
        return rows[:0]
    column = encoding.column[name]
    place = encoding.positions(column)
    found = [rows[:0]]
    for row in rows:
        near = neighbours(encoding, row[None], changes=1)
        near = near[near[:, column] == row[column]]
        for level in range(encoding.offered[column], len(place)):
            if abs(place[level] - place[row[column]]) < 1:
                moved = near.copy()
                moved[:, column] = level
                found.append(moved)
    return np.concatenate(found)


def candidates(encoding: Encoding, best: Rows, rng: np.random.Generator) -> Rows:
    """Return the configs to choose from; `best` are the rows whose neighbourhood matters in a large space."""
    if count(encoding) <= ENUMERATED:
        return everything(encoding)
    return distinct(encoding, np.concatenate([drawn(encoding, DRAWN, rng), neighbours(encoding, best)]))


def without_conflicts(encoding: Encoding, rows: Rows) -> Rows:
    """Return the rows whose values can run together."""
    space = encoding.space
    for option in encoding.options:
        # an option that it meets and that is not in the space has one value, and what it refuses is left out already
        known = [encoding.column[name] for name in (option.name, *option.meets) if name in encoding.column]
        if len(known) < 2:
            continue
        found, where = np.unique(rows[:, known], axis=0, return_inverse=True)
        fine = [space.legal(_values_alone(encoding, known, levels)) is None for levels in found]
        rows = rows[np.array(fine, dtype=bool)[where.reshape(-1)]]
    return rows


def _values_alone(encoding: Encoding, columns: list[int], levels: npt.NDArray[np.int16]) -> Config:
    """Return the config that sets nothing but some options."""
    pairs = zip(columns, levels, strict=True)
    return Config(**{encoding.names[column]: encoding.values[column][level] for column, level in pairs if level >= 0})


def distinct(encoding: Encoding, rows: Rows) -> Rows:
    """Return the rows without repetition, in order of first appearance."""
    _, first = np.unique(encoding.keys(rows), return_index=True)
    return rows[np.sort(first)]


def without(encoding: Encoding, rows: Rows, known: Rows) -> Rows:
    """Return the rows that are not among `known`."""
    return rows[~np.isin(encoding.keys(rows), encoding.keys(known))]
