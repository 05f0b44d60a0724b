"""The trials of a run by the value of one option."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from autotune.report.columns import differs_text
from autotune.report.export import FORMAT
from autotune.report.outcome import samples_per_s
from autotune.report.selection import Group
from autotune.words.figures import memory, rounded
from autotune.words.text import plain

ROOMY = 100  # columns from which on the best config of each group is shown
NARROW = 60  # columns below which the best throughput and the least memory are all that is shown
NUMBERS = ("configs", "failed", "best samples/s", "median", "least memory")
NUMBERS_NARROW = ("best samples/s", "least memory")
NO_EFFECT_FOLLOWS = (
    "Groups differ in other options, too: this is no option's effect. What each gives alone is in report.html."
)


def print_groups(console: Console, found: Sequence[Group], option: str) -> None:
    """Print a row a value."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    table.add_column(option, overflow="fold")  # a value may name modules
    roomy = console.width >= ROOMY
    shown = NUMBERS_NARROW if console.width < NARROW else NUMBERS
    for title in shown:
        table.add_column(title.replace(" ", "\n"), justify="right", no_wrap=True)
    if roomy:
        table.add_column("with", overflow="fold")
    for group in found:
        median, least = group.median_samples_per_s, group.least_peak_bytes
        numbers = {
            "configs": str(group.configs),
            "failed": str(group.failed or ""),
            "best samples/s": samples_per_s(group.best) if group.best else "",
            "median": "" if median is None else rounded(median, 0.01 * median),
            "least memory": "" if least is None else memory(least),
        }
        cells = [group.label, *(numbers[title] for title in shown)]
        cells += [differs_text(group.best) if group.best else ""] if roomy else []
        table.add_row(*map(plain, cells))
    console.print(table)
    console.print(plain(NO_EFFECT_FOLLOWS, "dim"))


def groups_json(found: Sequence[Group], option: str) -> str:
    document = {
        "format": FORMAT,
        "note": NO_EFFECT_FOLLOWS,
        "group_by": option,
        "groups": [_flat(item) for item in found],
    }
    return json.dumps(document, indent=2) + "\n"


def groups_csv(found: Sequence[Group], option: str) -> str:
    text = io.StringIO()
    records = [{f"option.{option}": item.pop("value"), **item} for item in map(_flat, found)]
    writer = csv.DictWriter(text, list(records[0]) if records else [f"option.{option}"], lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: "" if value is None else value for name, value in record.items()} for record in records)
    return text.getvalue()


def _flat(group: Group) -> dict[str, Any]:
    best = group.best
    return {
        "value": group.value,
        "configs": group.configs,
        "failed": group.failed,
        "best_trial": None if best is None else best.trial,
        "best_samples_per_s": None if best is None else best.samples_per_s,
        "median_samples_per_s": group.median_samples_per_s,
        "least_peak_bytes": group.least_peak_bytes,
    }
