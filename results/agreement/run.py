"""Is what a trial measures what the user's own loop then gets? Each example under three configs, measured both ways.

    python results/agreement/run.py                      # 6 rounds; under an hour on a quiet machine with two cores
    python results/agreement/run.py --rounds 1 --examples digits_cnn --out /tmp/agreement
    python results/agreement/run.py --best digits_cnn=search/digits_cnn/best.toml

A round is one pair of fresh processes: the example's own main() with the config applied, timed over whole epochs after
the first, and one trial of the tool. The order of the two follows ABBA. The ratio is own time per sample over the
trial's, its interval Student's t on the log ratios of the rounds. Finished rounds are kept in rounds.jsonl, so that a
run that was stopped goes on where it was; agreement.csv and agreement.md are written again after each
case, with the cases of this call.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import tomli_w

from autotune.config import Config
from autotune.machine import Machine
from autotune.records import Source
from autotune.search.setup import Prepared, Wishes, prepare
from autotune.search.specs import Specs
from autotune.search.verification.schedule import abba
from autotune.search.verification.statistics import compare
from autotune.trials.folder import RunFolder
from autotune.trials.runner import ForkServerRunner

FOLDER = Path(__file__).resolve().parent
EXAMPLES = FOLDER.parents[1] / "examples"
CONFIGS = ("baseline", "expert", "best")
MARGIN = 0.02
OWN_EPOCHS, OWN_S = 2, 8.0  # at least so many epochs after the first, and so many seconds in them
THROUGHPUT = re.compile(r"^throughput: ([\d.]+) samples/s", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Round:
    """One pair of measurements, as it stands in rounds.jsonl."""

    example: str
    name: str
    config: dict[str, Any]
    scale: str
    machine: dict[str, str]
    round: int
    order: list[str]
    epochs: int
    """of the own loop, the first one included"""
    own_sample_s: float
    trial_sample_s: float
    trial_uncertainty: float
    flags: list[str] = field(default_factory=list)
    load: float = 0.0
    """load average before the round"""

    def place(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("example", "name", "scale", "machine")}


class Case:
    """One example under one config."""

    def __init__(self, bench: Bench, name: str, config: Config) -> None:
        self.bench, self.name, self.config = bench, name, config

    def place(self) -> dict[str, Any]:
        """Return what must be the same, beside the config, for an earlier round to count."""
        return {
            "example": self.bench.script.stem,
            "name": self.name,
            "scale": os.environ.get("EXAMPLE_SCALE", "1"),
            "machine": Machine.read().identity(),
        }

    def measure(self, rounds: int, kept: list[Round], journal: Path) -> list[Round]:
        """Return the rounds of this case, running those that are missing."""
        done = [item for item in kept if item.place() == self.place() and item.config == dict(self.config)]
        for index, order in enumerate(abba("own", "trial", rounds, seed=0)):
            if index < len(done):
                continue
            epochs = done[0].epochs if done else self.bench.own_epochs(self.config)
            item = self._round(index, order, epochs)
            done.append(item)
            with journal.open("a") as file:
                file.write(json.dumps(asdict(item)) + "\n")
            ratio = item.own_sample_s / item.trial_sample_s
            print(f"{item.example} {item.name} round {index + 1}/{rounds}: own / trial {ratio:.3f}", flush=True)
        return done[:rounds]

    def _round(self, index: int, order: tuple[str, str], epochs: int) -> Round:
        load = Machine.read().load
        figures: dict[str, Any] = {}
        for how in order:
            figures |= self.bench.own(self.name, self.config, epochs) if how == "own" else self.bench.trial(self.config)
        settings = {"config": dict(self.config), "round": index, "order": list(order), "epochs": epochs, "load": load}
        return Round(**self.place(), **settings, **figures)


class Bench:
    """Measures configs of one example, both ways."""

    def __init__(
        self, script: Path, device: str, runner: ForkServerRunner, folder: RunFolder, own: tuple[int, float]
    ) -> None:
        """`own` is how much of the own loop is timed at least: epochs after the first, and seconds in them."""
        self.script, self.runner, self.folder, self._own = script, runner, folder, own
        wishes = Wishes(device=device, trial_timeout_s=600.0)
        self.prepared: Prepared = prepare(Source(script=str(script)), wishes, runner, folder)
        self.specs = Specs(self.prepared, wishes, folder)
        self._trials = 0

    def trial(self, config: Config) -> dict[str, Any]:
        """Run one trial; return its part of a round."""
        self._trials += 1
        record = self.runner.run(self.specs.make(self._trials, config), self.folder.log(self._trials))
        if record.measurement is None:
            raise SystemExit(f"{self.script.name}, {config}: trial ended {record.outcome}: {record.failure}")
        found = record.measurement
        return {
            "trial_sample_s": found.sample_s,
            "trial_uncertainty": found.uncertainty,
            "flags": list(found.flags),
        }

    def own(self, name: str, config: Config, epochs: int) -> dict[str, Any]:
        """Run the example's own main(); return its part of a round."""
        command = [sys.executable, str(self.script), "--throughput", "--epochs", str(epochs)]
        command += ["--device", self.prepared.facts.device]
        if name != "baseline":  # which is what the script does by itself
            path = self.folder.path / f"{name}.toml"
            path.write_text(tomli_w.dumps({"options": dict(config)}))
            command += ["--config", str(path)]
        environment = {**os.environ, "PYTHONHASHSEED": "0"}  # as in a trial
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        found = THROUGHPUT.search(done.stdout)
        if done.returncode or found is None:
            raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
        return {"own_sample_s": 1 / float(found.group(1))}

    def own_epochs(self, config: Config) -> int:
        """Return how many epochs give the own loop as much to measure as a trial has."""
        length = self.prepared.facts.dataset_length
        assert length is not None, "the examples' datasets know their length"
        epoch_s = length * self.trial(config)["trial_sample_s"]
        epochs, seconds = self._own
        return 1 + max(epochs, math.ceil(seconds / epoch_s))

    def configs(self, best: Path, kept: list[Round]) -> Iterator[tuple[str, Config]]:
        space = self.prepared.space
        yield "baseline", space.baseline
        # the expert's choice rests on the probe's timing, so a later call might choose otherwise: the first one stays
        expert = Case(self, "expert", space.expert())
        earlier = [item for item in kept if item.place() == expert.place()]
        yield "expert", Config(**earlier[0].config) if earlier else expert.config
        if best.exists():
            yield "best", space.canonical(Config.load(best))


def summarize(rounds: list[Round]) -> dict[str, Any]:
    """Return one line of the table."""
    own = [item.own_sample_s for item in rounds]
    trial = [item.trial_sample_s for item in rounds]
    line = {
        "example": rounds[0].example,
        "config": rounds[0].name,
        "rounds": len(rounds),
        "own_us": 1e6 * math.exp(sum(map(math.log, own)) / len(own)),
        "trial_us": 1e6 * math.exp(sum(map(math.log, trial)) / len(trial)),
        "ratio": math.exp(sum(math.log(a / b) for a, b in zip(own, trial, strict=True)) / len(own)),
        "lower": math.nan,
        "upper": math.nan,
        "verdict": "one round: no interval",
        "options": ", ".join(f"{name}={value}" for name, value in rounds[0].config.items()),
        "flags": " ".join(sorted({flag for item in rounds for flag in item.flags})),
        "load": max(item.load for item in rounds),
    }
    if len(rounds) > 1:
        found = compare(own, trial)
        line |= {
            "lower": found.lower,
            "upper": found.upper,
            "verdict": verdict(line["ratio"], found.lower, found.upper),
        }
    return line


def verdict(ratio: float, lower: float, upper: float) -> str:
    if max(upper, 1 / lower) <= 1 + MARGIN:
        return f"agree to {MARGIN:.0%}"
    if lower <= 1 <= upper:
        return f"not told apart, yet not known to {MARGIN:.0%}"
    return f"off by less than {MARGIN:.0%}" if abs(ratio - 1) <= MARGIN else "differ"


def interval(line: dict[str, Any]) -> str:
    return "-" if math.isnan(line["lower"]) else f"{line['lower']:.3f} to {line['upper']:.3f}"


def write(lines: list[dict[str, Any]], out: Path) -> None:
    with (out / "agreement.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, list(lines[0]))
        table.writeheader()
        table.writerows(lines)
    machine = Machine.read()
    cards = ", ".join(card.name for card in machine.gpus) or "no GPU"
    versions = ", ".join(f"{name} {version}" for name, version in machine.versions.items())
    rows = [
        f"| {line['example']} | {line['config']} | {line['own_us']:.1f} | {line['trial_us']:.1f} | {line['ratio']:.3f} "
        f"| {interval(line)} | {line['rounds']} | {line['verdict']} |"
        for line in lines
    ]
    configs = [f"- {line['example']}, {line['config']}: `{line['options']}`; flags: {line['flags']}" for line in lines]
    text = f"""# What a trial measures, and what the own loop gets

Time per sample of the example's own `main()` with the config applied (whole epochs after the first) over that of a
trial. Each round is a pair of fresh processes in ABBA order; the interval is Student's t on the log ratios, 95 %.
Made by `run.py`; every round is in rounds.jsonl.

| example | config | own, us/sample | trial, us/sample | own / trial | 95 % interval | rounds | |
|---|---|---|---|---|---|---|---|
{chr(10).join(rows)}

Machine: {machine.cpu}, {machine.usable_cores:g} usable cores, {machine.memory_bytes / 2**30:.0f} GiB, {cards};
Python {machine.python}, {versions}. Highest load average before a round: {max(line["load"] for line in lines):.1f}.

{chr(10).join(configs)}
"""
    (out / "agreement.md").write_text(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = sorted(path.stem for path in EXAMPLES.glob("*.py"))
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--examples", nargs="+", choices=names, default=names)
    parser.add_argument("--configs", nargs="+", choices=CONFIGS, default=CONFIGS)
    parser.add_argument("--best", nargs="+", default=[], metavar="EXAMPLE=TOML", help="else best/EXAMPLE.toml")
    parser.add_argument("--device", default="")
    parser.add_argument("--own-epochs", type=int, default=OWN_EPOCHS, help="of the own loop, after the first")
    parser.add_argument("--own-seconds", type=float, default=OWN_S, help="in them, at least")
    parser.add_argument("--out", type=Path, default=FOLDER)
    args = parser.parse_args()
    best = dict(item.split("=", 1) for item in args.best)
    args.out.mkdir(parents=True, exist_ok=True)
    journal = args.out / "rounds.jsonl"
    kept = [Round(**json.loads(line)) for line in journal.read_text().splitlines()] if journal.exists() else []
    lines: list[dict[str, Any]] = []
    for example in args.examples:
        with tempfile.TemporaryDirectory() as scratch:
            folder = RunFolder(Path(scratch))
            folder.create()
            runner = ForkServerRunner(folder.server_log)
            try:
                own = args.own_epochs, args.own_seconds
                bench = Bench(EXAMPLES / f"{example}.py", args.device, runner, folder, own)
                chosen = Path(best.get(example, FOLDER / "best" / f"{example}.toml"))
                for name, config in bench.configs(chosen, kept):
                    if name in args.configs:
                        lines.append(summarize(Case(bench, name, config).measure(args.rounds, kept, journal)))
                        write(lines, args.out)
            finally:
                runner.close()


if __name__ == "__main__":
    main()
