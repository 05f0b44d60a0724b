"""Is the throughput that a trial reports the script's own? The dozen unmodified scripts, with and without autotune.

    python results/scripting/throughput/run.py               # 6 rounds of 11 scripts; about half an hour
    python results/scripting/throughput/run.py --rounds 1 --scripts mnist exits

Each round runs a script by itself and as a trial of its own settings, in fresh processes, in ABBA order, and by
`autotune run` with the default config. By itself a clock reads when an optimizer has stepped and when a DataLoader
begins an epoch, and nothing else is changed: an epoch is the time from its begin to its last step, which leaves out
evaluations as a trial does. Epochs are put together to blocks as long as a trial's, and their median counts, as there.
rounds.csv keeps every round, so that a study that was interrupted goes on; throughput.md is written from it. On a quiet
machine only: on two busy cores single processes of one script differ by far more than what is looked for.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from autotune.documents import from_plain
from autotune.facts import Facts
from autotune.machine import Machine, versions
from autotune.records import Limits, Outcome, Source, TrialRecord, TrialSpec
from autotune.trials.runner import ForkServerRunner

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parents[2]
SCRIPTS = ROOT / "tests" / "scripts" / "unmodified"
NAMES = ("mnist", "imagenet", "nanogpt", "dcgan", "dict_transformer", "loss_from_model", "scaler", "iterable",
         "item_every_step", "config_folder", "exits")  # fmt: skip
ARMS = ("alone", "trial", "run")
STUDENT_T = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78, 6: 2.57, 8: 2.36, 12: 2.20}  # 0.975 quantile by number of rounds
GIB = 1 << 30
BLOCK_S = 0.05  # as a trial's
EVALUATION = 3.0  # medians of a step: longer than this is a step with an evaluation before it

CLOCK = """
import atexit, json, runpy, sys, time
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils.data import DataLoader
events, out, script = [], sys.argv[1], sys.argv[2]
register_optimizer_step_post_hook(lambda *_: events.append(("step", time.perf_counter())))
begin = DataLoader.__iter__
def begins(loader):
    events.append(("epoch", time.perf_counter()))
    return begin(loader)
DataLoader.__iter__ = begins
sys.argv[:] = sys.argv[2:]
def save():
    with open(out, "w") as file:
        json.dump(events, file)
atexit.register(save)
if script == "autotune":
    from autotune.cli import main
    main()
else:
    sys.path.insert(0, script.rpartition("/")[0])
    runpy.run_path(script, run_name="__main__")
"""
"""notes when the script's optimizers have made a step, and when its loaders begin an epoch"""


LONGER = {
    "in range(2)": "in range(100)",
    "in range(3)": "in range(100)",
    "max_iters, eval_interval = 30": "max_iters, eval_interval = 1500",
    "type=int, default=2)": "type=int, default=100)",
    "default=2, type=int": "default=100, type=int",
}
"""how many epochs or steps the scripts train, and how many so that they can be timed"""


def longer(text: str) -> str:
    """Return a script that trains long enough to be timed."""
    for before, after in LONGER.items():
        text = text.replace(before, after)
    return text


def prepare(folder: Path) -> None:
    """Put the scripts into a folder of their own, trained longer."""
    shutil.copytree(SCRIPTS, folder, ignore=shutil.ignore_patterns("__pycache__"))
    for path in folder.glob("*.py"):
        path.write_text(longer(path.read_text()))
    settings = json.loads((folder / "settings.json").read_text())
    (folder / "settings.json").write_text(json.dumps({**settings, "epochs": 100}))
    np.random.default_rng(0).integers(0, 256, 1 << 16, dtype=np.uint8).tofile(folder / "tokens.bin")
    (folder / "default.toml").write_text("[options]\n")


def timed(folder: Path, words: list[str], per_step: int) -> float:
    """Return the seconds of an update of the script, in a process of its own."""
    out = folder / "times.json"
    command = [sys.executable, "-c", CLOCK, str(out), *words]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)} failed:\n{done.stderr[-2000:]}")
    pieces = epochs(json.loads(out.read_text()))
    pieces = pieces[len(pieces) // 5 :]  # the first fifth warms up
    blocks = list(in_blocks(pieces)) or [sum(took for took, _ in pieces) / sum(steps for _, steps in pieces)]
    return per_step * statistics.median(blocks)


def epochs(events: list[tuple[str, float]]) -> list[tuple[float, int]]:
    """Return seconds and steps of each epoch; of each step without an evaluation where no loader begins any."""
    if all(kind == "step" for kind, _ in events):
        took = [after - before for (_, before), (_, after) in itertools.pairwise(events)]
        most = EVALUATION * statistics.median(took)
        return [(item, 1) for item in took if item < most]
    found: list[tuple[float, int]] = []
    began, count, last = math.nan, 0, math.nan
    for kind, at in [*events, ("epoch", math.nan)]:
        if kind == "step":
            count, last = count + 1, at
            continue
        if count:  # others are evaluations
            found.append((last - began, count))
        began, count = at, 0
    return found


def in_blocks(pieces: list[tuple[float, int]]) -> Iterator[float]:
    """Yield the seconds of a step in blocks of whole pieces."""
    seconds, steps = 0.0, 0
    for took, count in pieces:
        seconds, steps = seconds + took, steps + count
        if seconds >= BLOCK_S:
            yield seconds / steps
            seconds, steps = 0.0, 0


def spec_of(script: Path, folder: Path, kind: str, facts: Facts | None) -> TrialSpec:
    return TrialSpec(
        number=0,
        kind=kind,
        config={} if facts is None else dict(facts.baseline),
        baseline={},
        source=Source(script=str(script), unmodified=True),
        device="cpu",
        limits=Limits(host_bytes=8 * GIB, timeout_s=300, budget_s=8.0),
        record_path=str(folder / f"{kind}.json"),
        found=None if facts is None else facts.script,
        dataset_length=None if facts is None else facts.dataset_length,
        fixed_batch=facts is not None and facts.fixed_batch is not None,
    )


def trial(script: Path, folder: Path, kind: str, facts: Facts | None) -> TrialRecord:
    """Return the record of a trial in a fresh fork server."""
    runner = ForkServerRunner(folder / "server.log", sandbox=True)
    try:
        record = runner.run(spec_of(script, folder, kind, facts), folder / f"{kind}.log")
    finally:
        runner.close()
    if record.outcome is not Outcome.OK:
        raise SystemExit(f"{script.name}: {record.failure}")
    return record


def one_round(name: str, number: int, folder: Path, facts: Facts) -> dict[str, object]:
    """Return the seconds of a step by each arm: alone, trial, run and back."""
    script = folder / f"{name}.py"
    assert facts.script is not None
    per_step = facts.script.updates_per_step
    given = facts.baseline["batch_size"] if facts.script.loader is not None else facts.script.samples_per_step
    samples = given * facts.script.batches_per_update  # of an update

    def measure(arm: str) -> float:
        if arm == "alone":
            return timed(folder, [str(script)], per_step)
        if arm == "run":
            words = ["autotune", "run", str(script), "--config", str(folder / "default.toml")]
            return timed(folder, words, per_step)
        measurement = trial(script, folder, "trial", facts).measurement
        assert measurement is not None
        return measurement.sample_s * samples

    order = ARMS if number % 2 == 0 else ARMS[::-1]
    first = {arm: measure(arm) for arm in order}
    second = {arm: measure(arm) for arm in reversed(order)}
    return {"script": name, "round": number, **{f"{arm}_s": (first[arm] + second[arm]) / 2 for arm in ARMS}}


def interval(ratios: list[float]) -> str:
    """Return the geometric mean of paired ratios with its 95 % interval."""
    logs = [math.log(ratio) for ratio in ratios]
    mean = statistics.fmean(logs)
    if len(logs) < 2:
        return f"{math.exp(mean):.3f}"
    quantile = STUDENT_T[max(known for known in STUDENT_T if known <= len(logs))]
    half = quantile * statistics.stdev(logs) / math.sqrt(len(logs))
    return f"{math.exp(mean):.3f} ({math.exp(mean - half):.3f} to {math.exp(mean + half):.3f})"


def write_table(rows: list[dict[str, str]], out: Path) -> None:
    lines = ["# The throughput of a trial and the script's own", ""]
    lines.append("Made by `python results/scripting/throughput/run.py`. The seconds of an update against those of the")
    lines += ["script alone: geometric mean of the rounds' ratios, 95 % interval.", ""]
    lines += ["| script | rounds | update alone | trial / alone | `autotune run` / alone |", "|---|---|---|---|---|"]
    for name in dict.fromkeys(row["script"] for row in rows):
        own = [{arm: float(row[f"{arm}_s"]) for arm in ARMS} for row in rows if row["script"] == name]
        alone = 1e3 * statistics.median(item["alone"] for item in own)
        ratios = [interval([item[arm] / item["alone"] for item in own]) for arm in ("trial", "run")]
        lines.append(f"| {name} | {len(own)} | {alone:.2f} ms | {ratios[0]} | {ratios[1]} |")
    machine = Machine.read()
    lines += ["", f"{machine.cpu}, {machine.usable_cores:g} usable cores, torch {versions()['torch']}"]
    (out / "throughput.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--scripts", nargs="+", default=list(NAMES), choices=NAMES)
    parser.add_argument("--out", type=Path, default=FOLDER)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    table = args.out / "rounds.csv"
    rows = list(csv.DictReader(table.open(encoding="utf-8"))) if table.exists() else []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "scripts"
        prepare(folder)
        os.chdir(folder)
        for number in range(args.rounds):
            for name in args.scripts:
                if any(row["script"] == name and int(row["round"]) == number for row in rows):
                    continue
                facts = from_plain(Facts, trial(folder / f"{name}.py", folder, "probe", None).facts)
                row = {key: str(value) for key, value in one_round(name, number, folder, facts).items()}
                rows.append(row)
                with table.open("w", newline="", encoding="utf-8") as file:
                    writer = csv.DictWriter(file, fieldnames=list(row))
                    writer.writeheader()
                    writer.writerows(rows)
                print(row, flush=True)
    write_table(rows, args.out)


if __name__ == "__main__":
    main()
