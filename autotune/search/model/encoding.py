"""Configs as rows of level numbers, so that a whole space is one integer matrix.

A level is a position in the option's values; -1 stands for an inert option. The values are the choices of the
space, followed by values that were seen but are not offered (a baseline beside the space, a batch size
between the ladder's).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from autotune.config import Config
from autotune.options import OPTIONS
from autotune.options.base import Option, Value
from autotune.options.space import Space

Rows = npt.NDArray[np.int16]
"""configs by options"""
FloatArray = npt.NDArray[np.float64]

INERT = -1


class Encoding:
    """The levels of a space's options. Columns stand in the order of `space.choices`."""

    def __init__(self, space: Space, seen: Iterable[Config] = ()) -> None:
        self.space = space
        self.options: list[Option] = [*space.options(), *(OPTIONS[name] for name in space.decided)]
        self.names = [option.name for option in self.options]
        self.column = {name: column for column, name in enumerate(self.names)}
        known = [space.baseline, *seen]
        self.values: list[list[Value]] = []
        for name in self.names:
            offered = self._offered(name)
            beside = {config[name] for config in known if name in config} - set(offered)
            self.values.append([*offered, *sorted(beside, key=lambda value: (str(type(value)), value))])
        # a decided option offers nothing by itself: one level stands for whatever `canonical` finds
        self.offered = [len(space.choices.get(name, "1")) for name in self.names]
        self._level = [{value: level for level, value in enumerate(values)} for values in self.values]
        self.parent = [self._parent(option) for option in self.options]
        self.default = [
            levels.get(option.default, INERT) for option, levels in zip(self.options, self._level, strict=True)
        ]
        self.today = [
            self._level[column][space.baseline.get(name, _fallback(option, self._offered(name)))]
            for column, (name, option) in enumerate(zip(self.names, self.options, strict=True))
        ]
        self.order = self._parents_first()
        self._decided = [self._decision(name, by) for name, by in space.decided.items()]

    def _parent(self, option: Option) -> int | None:
        """Return the column of the option that this one needs; INERT where the space lacks that option."""
        return None if option.needs is None else self.column.get(option.needs, INERT)

    def _offered(self, name: str) -> Sequence[Value]:
        """Return the choices of an option; of a decided one, what they come to."""
        space = self.space
        if name in space.choices:
            return space.choices[name]
        deciding = space.choices[space.decided[name]]
        return list(dict.fromkeys(OPTIONS[name].decide(value, space.context) for value in deciding))

    def _decision(self, name: str, by: str) -> tuple[int, int, npt.NDArray[np.int16]]:
        """Return the columns of a decided option and of the one that decides it, and its level for each of theirs."""
        column, deciding = self.column[name], self.column[by]
        decided = [OPTIONS[name].decide(value, self.space.context) for value in self.values[deciding]]
        levels = [self._level[column].get(value, INERT) for value in decided]
        return column, deciding, np.array(levels, dtype=np.int16)

    def _parents_first(self) -> list[int]:
        order: list[int] = []

        def visit(column: int) -> None:
            parent = self.parent[column]
            if parent is not None and parent != INERT and parent not in order:
                visit(parent)
            if column not in order:
                order.append(column)

        for column in range(len(self.names)):
            visit(column)
        return order

    def rows(self, configs: Sequence[Config]) -> Rows:
        """Return canonical configs as rows."""
        rows = np.full((len(configs), len(self.names)), INERT, dtype=np.int16)
        for row, config in zip(rows, configs, strict=True):
            for column, name in enumerate(self.names):
                if name in config:
                    row[column] = self._level[column][config[name]]
        return rows

    def config(self, row: npt.NDArray[np.integer]) -> Config:
        """Return the canonical config of one row."""
        return Config(
            **{
                name: values[level]
                for name, values, level in zip(self.names, self.values, row, strict=True)
                if level != INERT
            }
        )

    def level(self, name: str, value: Value) -> int:
        return self._level[self.column[name]][value]

    def numbers(self, name: str, rows: Rows, otherwise: float) -> FloatArray:
        """Return the number that one option is set to in each row; `otherwise` where it has no effect."""
        if name not in self.column:
            return np.full(len(rows), otherwise)
        column = self.column[name]
        table = np.array([*(float(value) for value in self.values[column]), otherwise])
        return table[rows[:, column]]

    def positions(self, column: int) -> FloatArray:
        """Return where each level of an ordered option lies, in choices; others are interpolated."""
        values, offered = self.values[column], self.offered[column]
        ranks = np.arange(len(values), dtype=float)
        scale = np.array([np.log1p(float(value)) for value in values[:offered]])
        if len(values) > offered and np.all(np.diff(scale) > 0):
            beside = [np.log1p(float(value)) for value in values[offered:]]
            ranks[offered:] = np.interp(beside, scale, ranks[:offered])
        return ranks

    def canonical(self, rows: Rows) -> Rows:
        """Return the rows with inert options at -1 and active ones that were inert at today's level."""
        rows = rows.copy()
        for column in self.order:
            inert = self.inert(column, rows)
            rows[:, column] = np.where(
                inert, INERT, np.where(rows[:, column] == INERT, self.today[column], rows[:, column])
            )
        for column, deciding, levels in self._decided:
            rows[:, column] = levels[rows[:, deciding]]
        return rows

    def inert(self, column: int, rows: Rows) -> npt.NDArray[np.bool_]:
        parent = self.parent[column]
        if parent is None:
            return np.zeros(len(rows), dtype=bool)
        if parent == INERT:
            return np.ones(len(rows), dtype=bool)
        return np.asarray((rows[:, parent] == INERT) | (rows[:, parent] == self.default[parent]))

    def keys(self, rows: Rows) -> npt.NDArray[np.uint64]:
        """Return one number a row, equal only for equal rows (mixed radix; wraps beyond 2**64 configs)."""
        key = np.zeros(len(rows), dtype=np.uint64)
        for column, values in enumerate(self.values):
            key = key * np.uint64(len(values) + 1) + (rows[:, column] + 1).astype(np.uint64)
        return key


def _fallback(option: Option, offered: Sequence[Value]) -> Value:
    return option.default if option.default in offered else offered[0]
