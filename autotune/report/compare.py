"""Two runs of one script, on two machines or two dates: what changed, and what cannot be compared."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from autotune.errors import UsageError
from autotune.report.evidence import Answer, Evidence, gather
from autotune.report.export import FORMAT
from autotune.report.outcome import samples_per_s, step_ms
from autotune.report.rows import Row, full_config
from autotune.report.run import Run, began
from autotune.report.selection import value_label
from autotune.words.figures import memory
from autotune.words.text import plain, values_text

COMPARABLE_FACTS = {"dataset_length": "dataset length", "model": "model", "parameters": "parameters"}
"""facts of the workload without which no figure of one run says anything about the other, and what they are called"""


@dataclass(frozen=True, kw_only=True)
class Line:
    """One thing in both runs, in words."""

    what: str
    first: str
    second: str

    @property
    def same(self) -> bool:
        return self.first == self.second


@dataclass(frozen=True, kw_only=True)
class ComparedRuns:
    """What two runs have in common, and what they have not."""

    surroundings: tuple[Line, ...]
    """script, machine, versions, limits"""
    figures: tuple[Line, ...]
    """of the baseline and of the best config"""
    best: tuple[Line, ...]
    """options of the best configs, where any of the two differs from its baseline"""
    incomparable: tuple[str, ...]
    """what cannot be compared, and why"""


def compare_runs(first: Run, second: Run) -> ComparedRuns:
    """Compare two runs.

    Raises:
        UsageError: they are of different scripts.
        RunFolderError: a file of one is damaged.
    """
    names = [Path(run.info.source.script).name or "a workload from Python" for run in (first, second)]
    if names[0] != names[1]:
        told = f"{first.folder.path} of {names[0]}, {second.folder.path} of {names[1]}"
        raise UsageError(
            f"these runs are of different scripts: {told}", hint="Only runs of one script can be compared."
        )
    both = gather(first), gather(second)
    return ComparedRuns(
        surroundings=tuple(_lines(*(dict(_surroundings(run)) for run in (first, second)))),
        figures=tuple(_lines(*(dict(_figures(evidence)) for evidence in both))),
        best=tuple(_best(*both)),
        incomparable=tuple(_incomparable(first, second)),
    )


def print_comparison(console: Console, first: Run, second: Run, found: ComparedRuns) -> None:
    """Print what changed, the figures side by side, and what cannot be compared."""
    for reason in found.incomparable:
        console.print(plain(f"Not comparable: {reason}", "bold yellow"))
    titles = ("", str(first.folder.path), str(second.folder.path))
    different = [line for line in found.surroundings if not line.same]
    same = [line.what for line in found.surroundings if line.same]
    for title, lines in (
        ("what changed around it", different),
        ("best config", found.best),
        ("figures", found.figures),
    ):
        if lines:
            console.print(_table((title, *titles[1:]), lines))
            console.print()
    if same:
        console.print(plain(f"The same in both: {', '.join(same)}.", "dim"))
    console.print(plain("Figures of two runs were not measured in turn: their difference proves nothing.", "dim"))


def comparison_json(first: Run, second: Run, found: ComparedRuns) -> str:
    document = {"format": FORMAT, "runs": [str(run.folder.path) for run in (first, second)], **asdict(found)}
    return json.dumps(document, indent=2) + "\n"


def _table(titles: tuple[str, ...], lines: tuple[Line, ...] | list[Line]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    for index, title in enumerate(titles):
        table.add_column(plain(title), overflow="fold", no_wrap=index == 0)
    for line in lines:
        table.add_row(plain(line.what), plain(line.first or "-"), plain(line.second or "-"))
    return table


def _lines(first: Mapping[str, str], second: Mapping[str, str]) -> Iterator[Line]:
    for what in dict.fromkeys((*first, *second)):
        yield Line(what=what, first=first.get(what, ""), second=second.get(what, ""))


def _surroundings(run: Run) -> Iterator[tuple[str, str]]:
    info, machine = run.info, run.info.machine
    yield "began (UTC)", began(info)
    yield "script's text", info.script_hash[:12]
    yield "script's arguments", " ".join(info.source.arguments)
    yield "device", str(info.facts.get("device_name") or machine.get("cpu") or "")
    yield "driver", ", ".join(sorted({str(gpu.get("driver", "")) for gpu in machine.get("gpus") or ()}))
    yield "cores", f"{machine.get('usable_cores', 0):g}"
    yield "memory", memory(int(machine.get("memory_bytes", 0)))
    yield "python", str(machine.get("python", ""))
    for name, version in sorted((machine.get("versions") or {}).items()):
        yield name, str(version)
    yield "baseline", values_text(run.baseline)
    yield "host memory limit", memory(info.limits.host_bytes)
    yield "device memory limit", "" if info.limits.device_bytes is None else memory(info.limits.device_bytes)
    yield "sampler", info.sampler
    yield "objective", info.objective
    yield "trials", str(len(run.screening))
    yield from ((name, str(info.facts.get(field, ""))) for field, name in COMPARABLE_FACTS.items())


def _figures(evidence: Evidence) -> Iterator[tuple[str, str]]:
    best = evidence.answers[0] if evidence.answers else None
    yield from _row("baseline", evidence.baseline_row)
    yield from _row("best", evidence.row(best) if best else None)
    yield "verdict", _verdict(best)


def _row(whose: str, row: Row | None) -> Iterator[tuple[str, str]]:
    yield f"{whose} samples/s", "" if row is None else samples_per_s(row)
    yield f"{whose} step ms", "" if row is None else step_ms(row)
    yield f"{whose} peak memory", "" if row is None or row.peak_bytes is None else memory(row.peak_bytes)


def _verdict(answer: Answer | None) -> str:
    if answer is None:
        return "no config was measured within the limits"
    return answer.sentence or "not verified"


def _best(first: Evidence, second: Evidence) -> Iterator[Line]:
    configs = [full_config(item.answers[0].config) if item.answers else {} for item in (first, second)]
    baselines = [full_config(item.run.baseline) for item in (first, second)]
    for name in baselines[0]:
        values = [config.get(name) for config in configs]
        moved = any(
            config and value != baseline[name]
            for config, value, baseline in zip(configs, values, baselines, strict=True)
        )
        if moved:
            told = [value_label(config[name]) if config else "" for config in configs]
            yield Line(what=name, first=told[0], second=told[1])


def _incomparable(first: Run, second: Run) -> Iterator[str]:
    for field, name in COMPARABLE_FACTS.items():
        then, now = (_told(run.info.facts.get(field)) for run in (first, second))
        if then != now:
            yield f"every figure: the {name} is {then} in one, {now} in the other"
    if first.info.script_hash != second.info.script_hash:
        yield "with certainty: the script's text changed between the runs"
    if first.baseline.difference(second.baseline) or second.baseline.difference(first.baseline):
        yield "the speed-ups: each is against a baseline of its own"
    if first.info.planned_samples != second.info.planned_samples:
        yield "times: the start is spread over another length of training, or in one run only"
    if first.info.objective != second.info.objective:
        yield f"the best configs: one search went for {first.info.objective}, the other for {second.info.objective}"


def _told(value: Any) -> str:
    return "unknown" if value is None else f"{value:,}" if isinstance(value, int) else str(value)
