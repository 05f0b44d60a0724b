"""Which rows of a run are shown: those with given values, those on the Pareto front, groups by an option's value."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from autotune.errors import UsageError
from autotune.options import Value
from autotune.report.columns import sort_rows
from autotune.report.front import pareto_front
from autotune.report.rows import Row, full_config, rows_of_run
from autotune.report.run import Run
from autotune.words.text import value_text

NO_EFFECT = "no effect"


@dataclass(frozen=True, kw_only=True)
class Selection:
    """What the user asked to see of a run."""

    every: bool = False
    """each run of a config in a row of its own, failed ones too"""
    where: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)
    """by option: a row must have one of these values, for each of them"""
    pareto: bool = False
    """only configs that nothing beats on both throughput and memory"""
    sort: str | None = None
    """name of a column"""

    def rows(self, run: Run) -> list[Row]:
        """Return the rows, in order.

        Raises:
            UsageError: no such column; or no config of the run has the values asked for: says which there are.
        """
        everything = rows_of_run(run, merge=not self.every)
        found = [row for row in everything if self._matches(row)]
        if everything and not found:
            raise UsageError(
                f"no trial of {run.folder.path} has {' and '.join(map(self._asked, self.where))}",
                hint="; ".join(f"{name} was tried as {', '.join(values_of(everything, name))}" for name in self.where),
            )
        if self.pareto:
            found = pareto_front(found)
        return found if self.sort is None else sort_rows(found, self.sort)

    def _matches(self, row: Row) -> bool:
        config = full_config(row.config)
        return all(config[name] in values for name, values in self.where.items())

    def _asked(self, name: str) -> str:
        return f"{name}={' or '.join(map(value_text, self.where[name]))}"


EVERYTHING = Selection()
"""one row a config, as ranked"""


@dataclass(frozen=True, kw_only=True)
class Group:
    """The configs with one value of an option. Figures are None where none of them was measured."""

    value: Value | None
    """None: the option has no effect in these configs"""
    configs: int
    failed: int
    """of these, how many yielded no measurement"""
    best: Row | None
    """the fastest that fits"""
    median_samples_per_s: float | None
    least_peak_bytes: int | None

    @property
    def label(self) -> str:
        return value_label(self.value)


def groups(rows: Iterable[Row], option: str) -> list[Group]:
    """Return the groups by an option's value, the one with the fastest config first."""
    by_value: dict[Value | None, list[Row]] = {}
    for row in rows:
        by_value.setdefault(full_config(row.config)[option], []).append(row)
    found = [_group(value, members) for value, members in by_value.items()]
    return sorted(found, key=lambda group: (group.best is None, (group.best and group.best.rank) or 0, group.label))


def _group(value: Value | None, rows: Sequence[Row]) -> Group:
    ranked = sorted((row for row in rows if row.rank is not None), key=lambda row: row.rank or 0)
    rates = [row.samples_per_s for row in rows if row.samples_per_s is not None]
    return Group(
        value=value,
        configs=len({row.config for row in rows}),
        failed=sum(not row.measured for row in rows),
        best=ranked[0] if ranked else None,
        median_samples_per_s=statistics.median(rates) if rates else None,
        least_peak_bytes=min((row.peak_bytes for row in rows if row.peak_bytes is not None), default=None),
    )


def values_of(rows: Iterable[Row], option: str) -> list[str]:
    """Return the values that an option has in some rows, in words, each once."""
    return sorted({value_label(full_config(row.config)[option]) for row in rows})


def value_label(value: Value | None) -> str:
    return NO_EFFECT if value is None else value_text(value)
