"""The lines inside `__getitem__` and collate that a sample's time goes into. Techniques 19, 20."""

from __future__ import annotations

import ast
import functools
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

from autotune.doctor.context import Context
from autotune.doctor.findings import Finding, Gives, Sureness
from autotune.doctor.lines import Line
from autotune.doctor.reading import Chains, Place
from autotune.words.figures import duration, percent

SHOWN = 3
MIN_PART = 0.1  # of a sample's time, to be named
DESCENDS = 0.8  # of a line's time that lies in one line further in: that one is named instead


def check(context: Context) -> Iterator[Finding]:
    reading = context.reading
    if reading is None or context.worth(reading.gain(1.0)) is None:
        return  # nothing about the reading is worth a word
    chains = reading.chains
    total = sum(chains.values())
    places = [place for place in hottest(chains) if place.seconds >= MIN_PART * total][:SHOWN]
    if not places:
        return
    gain = reading.gain(places[0].seconds / total)
    if context.worth(gain) is None:
        return
    named = [f"{percent(place.seconds / total)} in {place.described}" for place in places]
    yield Finding(
        check="loading_lines",
        gives=Gives.SPEED,
        seen=f"a sample takes {duration(reading.sample_s)} to load, {', '.join(named)}",
        where=tuple(str(place.line) for place in places),
        remedy=(
            "do it once and store the result where it is the same on every read;",
            "or on whole batches on the device: Workload(batch_transform=...)",
        ),
        gain=gain,
        sure=Sureness.CERTAIN,
        why="if the first of these lines were free",
    )


def hottest(chains: Chains) -> list[Place]:
    """Return the lines of the user's that the time goes into, the slowest first; the lines of a loop are one."""
    places = []
    for key, part in _by_line(chains, 0).items():
        depth, (_, function, _) = 0, key
        while True:
            inner = _by_line(part, depth + 1)
            total = sum(part.values())
            best = max(inner, key=lambda other: sum(inner[other].values()), default=None)
            if best is None or sum(inner[best].values()) < DESCENDS * total:
                break
            part, depth, (_, function, _) = inner[best], depth + 1, best
        seconds: Counter[Line] = Counter()
        called: Counter[str] = Counter()
        for (frames, name), spent in part.items():
            seconds[frames[depth][0]] += spent
            deeper = frames[depth + 1][1] if len(frames) > depth + 1 else name
            called[deeper] += spent
        line = max(seconds, key=lambda one: seconds[one])
        inside = max(called, key=lambda one: called[one])
        places.append(Place(line, function, inside, sum(part.values())))
    return sorted(places, key=lambda place: -place.seconds)


def _by_line(chains: Chains, depth: int) -> dict[tuple[str, str, int], Chains]:
    """Return the chains by the line of their frame at `depth`: file, function, and the line or its loop's first."""
    found: defaultdict[tuple[str, str, int], Chains] = defaultdict(Counter)
    for chain, spent in chains.items():
        frames, _ = chain
        if len(frames) > depth:
            line, function = frames[depth]
            first = _loops(line.file).get(line.number, line.number)
            found[line.file, function, first][chain] += spent
    return found


@functools.lru_cache(maxsize=64)
def _loops(file: str) -> dict[int, int]:
    """Return for each line inside a loop the first line of the outermost loop around it, within its function."""
    try:
        tree = ast.parse(Path(file).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return {}
    found: dict[int, int] = {}

    def visit(node: ast.AST, loop: int | None) -> None:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            loop = None
        elif isinstance(node, ast.For | ast.While) and loop is None:
            loop = node.lineno
        if loop is not None and hasattr(node, "lineno"):
            for number in range(node.lineno, (node.end_lineno or node.lineno) + 1):  # type: ignore[attr-defined]
                found[number] = loop
        for child in ast.iter_child_nodes(node):
            visit(child, loop)

    visit(tree, None)
    return found
