"""Is the throughput that a trial reports the script's own? The dozen unmodified scripts, with and without autotune.

    python results/scripting/throughput/run.py               # 6 rounds of 11 scripts; about half an hour
    python results/scripting/throughput/run.py --rounds 1 --scripts mnist exits

Each round runs a script by itself and as a trial of its own settings, in fresh processes, in ABBA order, and by
`autotune run` with the default config. By itself a clock reads the time of each optimizer step, and nothing else is
changed: the median time between two steps of an epoch counts, as a trial's median step does. rounds.csv keeps every
round, so that a study that was interrupted goes on; throughput.md is written from it. On a quiet machine only:
on two busy cores single processes of one script differ by far more than what is looked for.
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

CLOCK = """
import atexit, json, runpy, sys, time
from torch.optim.optimizer import register_optimizer_step_post_hook
times, out, script = [], sys.argv[1], sys.argv[2]
register_optimizer_step_post_hook(lambda *_: times.append(time.perf_counter()))
sys.argv[:] = sys.argv[2:]
def save():
    with open(out, "w") as file:
        json.dump(times, file)
atexit.register(save)
if script == "autotune":
    from autotune.cli import main
    main()
else:
    sys.path.insert(0, script.rpartition("/")[0])
    runpy.run_path(script, run_name="__main__")
"""
"""notes when the script's optimizers have made a step"""


LONGER = {
    "in range(2)": "in range(30)",
    "in range(3)": "in range(30)",
    "max_iters, eval_interval = 30": "max_iters, eval_interval = 400",
    "type=int, default=2)": "type=int, default=30)",
    "default=2, type=int": "default=30, type=int",
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
    (folder / "settings.json").write_text(json.dumps({**settings, "epochs": 30}))
    np.random.default_rng(0).integers(0, 256, 1 << 16, dtype=np.uint8).tofile(folder / "tokens.bin")
    (folder / "default.toml").write_text("[options]\n")


def timed(folder: Path, words: list[str], per_step: int) -> float:
    """Return the median seconds of a step of the script, in a process of its own."""
    out = folder / "times.json"
    command = [sys.executable, "-c", CLOCK, str(out), *words]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)} failed:\n{done.stderr[-2000:]}")
    times = json.loads(out.read_text())[::per_step]
    steps = [after - before for before, after in itertools.pairwise(times)]
    return statistics.median(steps[len(steps) // 5 :])  # the first fifth warms up


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
        return measurement.step_s / measurement.samples_per_step * samples

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
