"""The configs that nothing beats on both throughput and memory."""

from __future__ import annotations

from collections.abc import Iterable

from autotune.report.rows import Row


def pareto_front(rows: Iterable[Row]) -> list[Row]:
    """Return the ranked rows than which no other is as fast in as little memory, smallest memory first."""
    ranked = [row for row in rows if row.rank is not None and row.peak_bytes is not None]
    front: list[Row] = []
    for row in sorted(ranked, key=lambda row: (row.peak_bytes or 0, row.rank or 0)):
        if not front or (row.rank or 0) < (front[-1].rank or 0):
            front.append(row)
    return front
