"""Throughput against peak memory as a plot of characters."""

from __future__ import annotations

from collections.abc import Sequence

from autotune.report.rows import Row
from autotune.words.figures import memory, significant

WIDEST, HEIGHT = 100, 15
MARKS = {"other": "·", "front": "●", "baseline": "B", "limit": "│"}
ASCII_MARKS = {"other": ".", "front": "*", "baseline": "B", "limit": "|"}
MARGIN = 0.05  # of the range, on each side


def scatter(rows: Sequence[Row], front: Sequence[Row], width: int, *, ascii_only: bool = False) -> list[str]:
    """Return the lines of the plot: a mark a measured config, the front's over the others, and the memory limit."""
    marks = ASCII_MARKS if ascii_only else MARKS
    points = [
        (row.peak_bytes, row.samples_per_s, _kind(row, front))
        for row in rows
        if row.peak_bytes is not None and row.samples_per_s is not None
    ]
    if not points:
        return []
    limit = next((row.limit_bytes for row in rows if row.limit_bytes is not None), None)
    rates = [rate for _, rate, _ in points]
    low, high = _range(rates)
    labels = [significant(rate, 3) for rate in (high, low)]
    gutter = max(map(len, labels)) + 2
    columns = max(20, min(width, WIDEST) - gutter - 1)
    left, right = _range([peak for peak, _, _ in points])
    if limit is not None and limit <= 2 * right:  # one far away would press the points together
        right = max(right, limit * (1 + MARGIN))
    grid = [[" "] * columns for _ in range(HEIGHT)]
    if limit is not None and left <= limit <= right:
        for line in grid:
            line[_place(limit, left, right, columns)] = marks["limit"]
    for kind in ("other", "front", "baseline"):
        for peak, rate, own in points:
            if own == kind:
                grid[HEIGHT - 1 - _place(rate, low, high, HEIGHT)][_place(peak, left, right, columns)] = marks[kind]
    edge, corner, floor = ("|", "+", "-") if ascii_only else ("┤", "└", "─")
    lines = []
    for index, line in enumerate(grid):
        label = {0: labels[0], HEIGHT - 1: labels[1]}.get(index, "")
        lines.append(f"{label:>{gutter - 1}} {edge}{''.join(line).rstrip()}")
    lines.append(" " * gutter + corner + floor * columns)
    ends = memory(round(left)), memory(round(right))
    lines.append(" " * (gutter + 1) + ends[0] + f"{ends[1]:>{columns - len(ends[0])}}")
    told = [f"{marks['front']} fastest for its memory", f"{marks['other']} others", "B baseline"]
    if limit is not None:
        seen = left <= limit <= right
        told.append(f"{marks['limit']} limit {memory(limit)}" if seen else f"limit {memory(limit)}, out of the picture")
    lines.append("samples/s by peak memory: " + ", ".join(told))
    return lines


def _kind(row: Row, front: Sequence[Row]) -> str:
    if not row.differs:
        return "baseline"
    return "front" if any(row.config == member.config for member in front) else "other"


def _range(values: Sequence[float]) -> tuple[float, float]:
    """Return the ends of an axis: a little beyond the values, and never below zero."""
    low, high = min(values), max(values)
    more = MARGIN * (high - low) or MARGIN * high or 1.0
    return max(0.0, low - more), high + more


def _place(value: float, low: float, high: float, count: int) -> int:
    return min(count - 1, max(0, round((value - low) / (high - low) * (count - 1))))
