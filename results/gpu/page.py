"""index.html of one card's results: the summaries, tables of every CSV, links to each search's own report."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from autotune.machine import Machine
from autotune.report.html.markup import Html, join, table, tag

STYLE = "body{font:15px/1.45 sans-serif;max-width:75em;margin:2em auto;padding:0 1em}table{border-collapse:collapse}"
STYLE += (
    "td,th{border:1px solid #ccc;padding:.2em .6em;text-align:left}pre{background:#f5f5f5;padding:.6em;overflow:auto}"
)
MOST_ROWS = 200


def write_page(out: Path, card: str, parts: Sequence[Any]) -> None:
    """Write index.html over what lies in `out`; called after each part."""
    machine = Machine.read()
    versions = ", ".join(f"{name} {version}" for name, version in machine.versions.items())
    where = f"{card}; {machine.cpu}, {machine.usable_cores:g} usable cores; Python {machine.python}, {versions}"
    sections = [_section(out, part.name, part.tells) for part in parts if (out / part.name).exists()]
    head = tag("head", Html('<meta charset="utf-8">'), tag("title", f"autotune on {card}"), tag("style", Html(STYLE)))
    body = tag("body", tag("h1", f"autotune on {card}"), tag("p", where), *sections)
    (out / "index.html").write_text(f"<!doctype html>\n{tag('html', head, body, lang='en')}\n", encoding="utf-8")


def _section(out: Path, name: str, tells: str) -> Html:
    folder = out / name
    summary = folder / "summary.txt"
    parts: list[str] = [tag("h2", f"{name}: {tells}")]
    parts.append(tag("pre", summary.read_text() if summary.exists() else "nothing was written"))
    parts += _links(out, folder)
    for path in sorted(folder.rglob("*.csv")):
        parts += [tag("h3", str(path.relative_to(out))), _table(path)]
    return join(*parts)


def _links(out: Path, folder: Path) -> Iterator[Html]:
    for path in [*sorted(folder.rglob("report.html")), *sorted(folder.glob("*.txt")), *sorted(folder.glob("*.md"))]:
        shown = os.path.relpath(path, out)
        yield tag("p", tag("a", shown, href=shown))


def _table(path: Path) -> Html:
    with path.open(newline="") as file:
        rows = list(csv.reader(file))
    return table(rows[0], rows[1 : MOST_ROWS + 1]) if rows else Html("")
