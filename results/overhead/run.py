"""What does a trial cost beyond the user's own import and build and the phases of the measurement itself?

    python results/overhead/run.py                       # 10 trials of digits_cnn; about three minutes
    python results/overhead/run.py --example jpeg_folder --trials 3 --out /tmp/overhead

The overhead is the wall time that the steering process sees, from its request until the last process of the trial is
gone, less the seconds that the trial's phases account for: forking, reading the spec, writing and reading the record,
ending the processes. At most half a second is promised. overhead.csv and overhead.md are written.
"""

from __future__ import annotations

import argparse
import csv
import statistics
import tempfile
from dataclasses import asdict
from pathlib import Path

from autotune.machine import Machine
from autotune.records import Phases, Source, TrialRecord
from autotune.search.setup import Wishes, prepare
from autotune.search.specs import Specs
from autotune.trials.folder import RunFolder
from autotune.trials.runner import ForkServerRunner

FOLDER = Path(__file__).resolve().parent
EXAMPLES = FOLDER.parents[1] / "examples"
PROMISED_S = 0.5


def run_trials(script: Path, trials: int, budget_s: float, device: str) -> list[TrialRecord]:
    """Return the records of trials of the baseline and the expert config in turn."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = RunFolder(Path(scratch))
        folder.create()
        runner = ForkServerRunner(folder.server_log)
        wishes = Wishes(device=device, trial_budget_s=budget_s)
        try:
            prepared = prepare(Source(script=str(script)), wishes, runner, folder)
            specs = Specs(prepared, wishes, folder)
            configs = (prepared.space.baseline, prepared.space.expert())
            records = []
            for number in range(trials):
                record = runner.run(specs.make(number, configs[number % 2]), folder.log(number))
                if record.measurement is None:
                    raise SystemExit(f"{script.name}: trial ended {record.outcome}: {record.failure}")
                records.append(record)
                print(f"trial {number}: {record.wall_s:.2f} s, overhead {overhead(record):.3f} s", flush=True)
            return records
        finally:
            runner.close()


def phase_seconds(phases: Phases) -> dict[str, float]:
    """Return the seconds of each phase; the whole life of the child is no phase."""
    return {name: seconds for name, seconds in asdict(phases).items() if name != "total_s"}


def overhead(record: TrialRecord) -> float:
    return record.wall_s - sum(phase_seconds(record.phases).values())


def write(records: list[TrialRecord], script: Path, out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    lines = [
        {"trial": record.number, "wall_s": record.wall_s, "overhead_s": overhead(record)}
        | {"outside_child_s": record.wall_s - record.phases.total_s}
        | phase_seconds(record.phases)
        for record in records
    ]
    with (out / "overhead.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, list(lines[0]))
        table.writeheader()
        table.writerows(
            {name: f"{value:.4f}" if name != "trial" else value for name, value in line.items()} for line in lines
        )
    machine = Machine.read()
    rows = []
    for name in list(lines[0])[1:]:
        values = [line[name] for line in lines]
        rows.append(f"| {name} | {statistics.median(values):.3f} | {max(values):.3f} |")
    worst = max(line["overhead_s"] for line in lines)
    kept = "kept" if worst <= PROMISED_S else "not kept"
    text = f"""# What a trial costs beyond its own phases

{len(lines)} trials of `{script.name}`, baseline and expert config in turn. Overhead: wall time that the steering
process sees less the sum of the trial's phases, the user's import and build among them. Promised: at most
{PROMISED_S} s; the worst here is {worst:.3f} s: {kept}. Made by `run.py`.

| seconds | median | worst |
|---|---|---|
{chr(10).join(rows)}

`outside_child_s` is the wall time less the child's whole life: fork, request and clearing up.

Machine: {machine.cpu}, {machine.usable_cores:g} usable cores; Python {machine.python},
{", ".join(f"{name} {version}" for name, version in machine.versions.items())}; load average {machine.load:.1f}.
"""
    (out / "overhead.md").write_text(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = sorted(path.stem for path in EXAMPLES.glob("*.py"))
    parser.add_argument("--example", choices=names, default="digits_cnn")
    parser.add_argument("--trials", type=int, default=10)
    parser.add_argument("--budget", type=float, default=15.0, metavar="SECONDS", help="of each trial's window")
    parser.add_argument("--device", default="")
    parser.add_argument("--out", type=Path, default=FOLDER)
    args = parser.parse_args()
    script = EXAMPLES / f"{args.example}.py"
    write(run_trials(script, args.trials, args.budget, args.device), script, args.out)


if __name__ == "__main__":
    main()
