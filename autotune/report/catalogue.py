"""All runs under a folder, with their verdicts."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from autotune.errors import RunFolderError
from autotune.report.evidence import gather
from autotune.report.export import FORMAT
from autotune.report.rows import differs_from
from autotune.report.run import began, read_run
from autotune.trials.folder import RunFolder
from autotune.words.text import plain, values_text

ROOMY = 110  # columns from which on the best config is shown, too


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One run in a line."""

    run: str
    script: str = ""
    began: str = ""
    """UTC, to the minute"""
    device: str = ""
    trials: int = 0
    verdict: str = ""
    best: str = ""
    """what the best config changes against the baseline"""


def run_folders(root: Path) -> list[Path]:
    """Return the run folders in `root`, and one level below, the one that was begun last first."""
    found = [*root.glob("*/run.json"), *root.glob("*/*/run.json")]
    return [path.parent for path in sorted(found, key=lambda path: path.stat().st_mtime, reverse=True)]


def entry(path: Path) -> Entry:
    """Return the line of a run; of a damaged one, what is wrong with it."""
    try:
        evidence = gather(read_run(RunFolder(path)))
    except RunFolderError as error:
        return Entry(run=str(path), verdict=error.message)
    run = evidence.run
    best = evidence.answers[0] if evidence.answers else None
    verdict = "no config was measured within the limits" if run.screening else "no trial has ended"
    if best is not None:
        verdict = best.sentence or ("not verified" if best.path.exists() else "not verified: it did not end")
    return Entry(
        run=str(path),
        script=Path(run.info.source.script).name or "(from Python)",
        began=began(run.info),
        device=str(run.info.facts.get("device_name", "")),
        trials=len(run.screening),
        verdict=verdict,
        best="" if best is None else values_text(differs_from(best.config, run.baseline)) or "the baseline",
    )


def print_catalogue(console: Console, entries: list[Entry]) -> None:
    """Print a row a run, and how to see one of them."""
    roomy = console.width >= ROOMY
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    for title in ("run", "began (UTC)", "trials", "verdict", *(["best config"] if roomy else [])):
        right = title == "trials"
        table.add_column(title, justify="right" if right else "left", overflow="fold", no_wrap=right)
    for item in entries:
        verdict = item.verdict if roomy else item.verdict.partition(" per sample")[0].partition(";")[0]
        cells = [item.run, item.began, str(item.trials or ""), verdict, *([item.best] if roomy else [])]
        table.add_row(*map(plain, cells))
    console.print(table)
    console.print(plain(f"A run's trials: autotune results {entries[0].run}", "dim"), soft_wrap=True)


def catalogue_json(entries: list[Entry]) -> str:
    return json.dumps({"format": FORMAT, "runs": [asdict(item) for item in entries]}, indent=2) + "\n"


def catalogue_csv(entries: list[Entry]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(_names()), lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(item) for item in entries)
    return text.getvalue()


def _names() -> Iterator[str]:
    yield from Entry.__dataclass_fields__
