"""What does each option do by itself? On the examples, every value turned alone, from the baseline and from a winner.

Options that need another one, as prefetching needs workers, are turned from the baseline with that one on, too.

    python results/options/run.py          # 4 rounds; an hour or two on two quiet cores
    python results/options/run.py --examples digits_cnn --rounds 1 --out /tmp/options

In a round every config is measured once, in a fresh process and in random order, the start config twice; a ratio is
taken within the round, so that a machine that drifts moves both. The interval is Student's t on the log ratios of the
rounds, with the spread of all values turned from the same start. Batch sizes are doubled, up to eight times; with many
values tried, one interval in twenty misses its truth by chance: the table shows effects, it claims no speed-up.
Finished windows are kept in windows.jsonl, so that a run that was stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import os
import random
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import t as student

from autotune.config import Config
from autotune.machine import Machine
from autotune.options import OPTIONS
from autotune.options.space import Space
from autotune.records import Source
from autotune.search.setup import Prepared, Wishes, prepare
from autotune.search.specs import Specs
from autotune.trials.folder import RunFolder
from autotune.trials.runner import ForkServerRunner

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parents[1]
EXAMPLES = ("digits_cnn", "char_transformer", "jpeg_folder")
ENABLED = "baseline with what others need"
STARTS = ("baseline", "winner", ENABLED)
BATCHES = (2, 4, 8)  # times the start's batch size
BLOCKS = 12  # in a window, by a plan made beforehand
FIELDS = ("example", "start", "option", "value", "rounds", "speed", "low", "high", "memory", "disturbed", "outcome")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--examples", nargs="*", default=EXAMPLES)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--out", type=Path, default=FOLDER)
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    kept = asked.out / "windows.jsonl"
    for example in asked.examples:
        with tempfile.TemporaryDirectory() as scratch:
            runner = ForkServerRunner(Path(scratch) / "server.log")
            try:
                bench = Bench(example, RunFolder(Path(scratch) / "run"), runner)
                note_left_out(asked.out / "left_out.json", example, bench.left_out)
                for round in range(asked.rounds):
                    for start in STARTS:
                        for window in bench.round(start, round, read(kept)):
                            with kept.open("a", encoding="utf-8") as file:
                                file.write(json.dumps(window) + "\n")
                    write_table(asked.out, read(kept))
            finally:
                runner.close()
    write_table(asked.out, read(kept))


class Bench:
    """Measures windows of one example."""

    def __init__(self, example: str, folder: RunFolder, runner: ForkServerRunner) -> None:
        folder.create()
        self.example, self._folder, self._runner = example, folder, runner
        wishes = Wishes(allowed=frozenset({"cache_dataset"}))
        source = Source(script=str(ROOT / "examples" / f"{example}.py"))
        self._prepared: Prepared = prepare(source, wishes, runner, folder)
        self._specs = Specs(self._prepared, wishes, folder)
        self._number = 0

    @property
    def left_out(self) -> dict[str, str]:
        """Why some options have one value only here, by name."""
        return dict(self._prepared.space.reasons)

    def round(self, start: str, round: int, done: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """Yield the windows of a round that are not done yet."""
        base = self._start(start)
        turns = [("", "", base), ("", "again", base), *turned(self._prepared.space, base, self._names(start))]
        random.Random(f"{self.example} {start} {round}").shuffle(turns)
        have = {(item["example"], item["start"], item["round"], item["option"], item["value"]) for item in done}
        for option, value, config in turns:
            key = (self.example, start, round, option, value)
            if key not in have:
                print(*key, flush=True)
                names = ("example", "start", "round", "option", "value")
                yield {**dict(zip(names, key, strict=True)), **self._window(config)}

    def _start(self, start: str) -> Config:
        space = self._prepared.space
        if start == "baseline":
            return space.baseline
        if start == ENABLED:
            needed = {OPTIONS[name].needs for name in self._idle()} - {None}
            on = {
                name: next(value for value in space.choices[name] if value != OPTIONS[name].default) for name in needed
            }
            return space.canonical(space.baseline.replace(**on))
        return space.canonical(Config.load(ROOT / "results" / "agreement" / "best" / f"{self.example}.toml"))

    def _names(self, start: str) -> list[str]:
        """Return the options that are turned from a start."""
        return self._idle() if start == ENABLED else list(self._prepared.space.choices)

    def _idle(self) -> list[str]:
        """Return the options that have no effect in the baseline, since another one is off there."""
        space = self._prepared.space
        return [name for name in space.choices if OPTIONS[name].needs in space.choices and name not in space.baseline]

    def _window(self, config: Config) -> dict[str, Any]:
        self._number += 1
        load = os.getloadavg()[0]
        spec = self._specs.make(self._number, config, kind="verification", fixed_blocks=BLOCKS)
        record = self._runner.run(spec, self._folder.log(self._number))
        self._specs.learn(record, config)
        found: dict[str, Any] = {"config": dict(config), "outcome": record.outcome.value, "load": round(load, 2)}
        if record.measurement is not None:
            found["sample_s"] = record.measurement.sample_s
            found["peak_bytes"] = record.measurement.steady.needed(self._prepared.accelerator)
            found["disturbed"] = record.measurement.disturbed
        elif record.failure is not None:
            found["outcome"] = f"{record.outcome.value}: {record.failure.reason}"
        return found


def turned(space: Space, base: Config, names: Sequence[str]) -> list[tuple[str, str, Config]]:
    """Return option, value and config for each value of these options that can be turned alone."""
    found, seen = [], {base}
    for name in names:
        values = space.choices[name]
        if name == "batch_size":
            values = tuple(factor * int(base.value(name)) for factor in BATCHES)
            values = tuple(value for value in values if value <= max(space.choices[name]))
        for value in values:
            config = space.canonical(base.replace(**{name: value}))
            if config not in seen and space.legal(config) is None:
                seen.add(config)
                found.append((name, str(value), config))
    return found


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def note_left_out(path: Path, example: str, reasons: dict[str, str]) -> None:
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    path.write_text(json.dumps({**known, example: reasons}, indent=1) + "\n", encoding="utf-8")


def write_table(out: Path, windows: list[dict[str, Any]]) -> None:
    """Write options.csv and options.md from all windows."""
    lines = list(effects(windows))
    with (out / "options.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, FIELDS)
        writer.writeheader()
        writer.writerows(lines)
    machine = Machine.read()
    text = [
        "# What each option does by itself",
        "",
        "Throughput against the start config, in the same round (above 1: faster), with its 95 % interval, and peak",
        f"memory against it. Made by `run.py` on {machine.cpu}, {machine.usable_cores:g} cores, torch "
        f"{machine.versions['torch']}. Disturbed: windows with a hard flag.",
        "",
        "| example | turned from | option | value | throughput | memory | rounds | disturbed |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for line in lines:
        speed = f"{line['speed']} ({line['low']} to {line['high']})" if line["speed"] else line["outcome"]
        cells = [line[name] for name in ("example", "start", "option", "value")]
        text.append(
            "| " + " | ".join([*cells, speed, line["memory"], str(line["rounds"]), str(line["disturbed"])]) + " |"
        )
    text += ["", "Not turned, since they have one value only there:", "", "| example | option | why |", "|---|---|---|"]
    for example, reasons in json.loads((out / "left_out.json").read_text(encoding="utf-8")).items():
        text += [f"| {example} | {option} | {why} |" for option, why in sorted(reasons.items())]
    (out / "options.md").write_text("\n".join(text) + "\n", encoding="utf-8")


def effects(windows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield a line of the table for each value that was turned."""
    starts: dict[tuple[str, str, int], list[dict[str, Any]]] = defaultdict(list)
    turns: dict[tuple[str, str, str, str], list[dict[str, Any]]] = defaultdict(list)
    for window in windows:
        if window["option"]:
            turns[window["example"], window["start"], window["option"], window["value"]].append(window)
        elif "sample_s" in window:
            starts[window["example"], window["start"], window["round"]].append(window)
    ratios: dict[tuple[str, str, str, str], list[float]] = {}
    memory: dict[tuple[str, str, str, str], list[float]] = {}
    for key, own in turns.items():
        measured = [(window, starts[*key[:2], window["round"]]) for window in own if "sample_s" in window]
        measured = [(window, base) for window, base in measured if base]
        ratios[key] = [_mean_log(base, "sample_s") - math.log(window["sample_s"]) for window, base in measured]
        memory[key] = [
            math.exp(math.log(window["peak_bytes"]) - _mean_log(base, "peak_bytes")) for window, base in measured
        ]
    for (example, start, option, value), own in turns.items():
        logs = ratios[example, start, option, value]
        line: dict[str, Any] = {"example": example, "start": start, "option": option, "value": value}
        line |= {"rounds": len(logs), "speed": "", "low": "", "high": "", "memory": "", "outcome": own[-1]["outcome"]}
        line["disturbed"] = sum(window.get("disturbed", False) for window in own)
        if logs:
            mean = float(np.mean(logs))
            half = half_width([found for key, found in ratios.items() if key[:2] == (example, start)], len(logs))
            speeds = (mean, mean - half, mean + half)
            line |= dict(zip(("speed", "low", "high"), (f"{math.exp(item):.2f}" for item in speeds), strict=True))
            line["memory"] = f"{np.mean(memory[example, start, option, value]):.2f}"
        yield line


def half_width(together: list[list[float]], rounds: int) -> float:
    """Return the half-width of a 95 % interval of a mean log ratio over some rounds.

    Its spread is that of all values turned from one start together: two or three rounds of one value tell little of it.
    """
    several = [found for found in together if len(found) > 1]
    freedom = sum(len(found) - 1 for found in several)
    if not freedom:
        return math.inf
    variance = sum((len(found) - 1) * float(np.var(found, ddof=1)) for found in several) / freedom
    return float(student.ppf(0.975, freedom)) * math.sqrt(variance / rounds)


def _mean_log(windows: list[dict[str, Any]], name: str) -> float:
    return float(np.mean([math.log(window[name]) for window in windows]))


if __name__ == "__main__":
    main()
