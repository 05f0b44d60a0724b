"""Measures the oracle of one example: a fixed set of configs, each twice, in random order.

    python results/search/oracle/measure.py digits_cnn                    # until it is complete
    python results/search/oracle/measure.py digits_cnn --seconds 1800     # for half an hour; goes on where it stopped
    python results/search/oracle/measure.py digits_cnn --configs 12 --replicates 1 --out /tmp/oracle

The first run probes the example, measures its baseline, draws the configs and writes them to EXAMPLE.configs.json.
From then on that set stands, and every trial appends one line to EXAMPLE.jsonl, so that the measuring can be stopped
at any time and what there is can be committed and replayed. Nothing else may run meanwhile.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from draw import Chosen, Turn, plan

from autotune.config import Config
from autotune.documents import from_plain
from autotune.facts import Facts
from autotune.machine import Machine
from autotune.records import Source, TrialRecord
from autotune.search.observation import observe
from autotune.search.setup import Prepared, Wishes, deciding_limit, prepare
from autotune.search.specs import Specs
from autotune.trials.folder import RunFolder
from autotune.trials.runner import ForkServerRunner

FOLDER = Path(__file__).resolve().parent
EXAMPLES = FOLDER.parents[2] / "examples"
CONFIGS, REPLICATES, BASELINE_EVERY, SEED = 152, 2, 15, 0
# many configs, each briefly: what a short window lacks in precision the replicates show
WISHES = Wishes(trial_budget_s=3.0, trial_budget_max_s=20.0, target=0.05, seed=SEED)


class Bench:
    """Runs trials of one example."""

    def __init__(self, prepared: Prepared, runner: ForkServerRunner, folder: RunFolder) -> None:
        self.prepared, self.runner, self.folder = prepared, runner, folder
        self.specs = Specs(prepared, WISHES, folder)

    def trial(self, number: int, config: Config, *, small: bool) -> TrialRecord:
        """Run one trial; `small` adds the peak at the smallest batch size, which a search asks for as well."""
        smallest = min(int(size) for size in self.prepared.space.choices["batch_size"])
        wanted = smallest if small and smallest < int(config.value("batch_size")) else None
        record = self.runner.run(self.specs.make(number, config, small_batch=wanted), self.folder.log(number))
        self.specs.learn(record, config)
        self.folder.record(number).unlink(missing_ok=True)
        return record


def begin(example: str, source: Source, runner: ForkServerRunner, folder: RunFolder, number: int) -> Chosen:
    """Probe the example, time its baseline and draw the configs."""
    prepared = prepare(source, WISHES, runner, folder)
    record = Bench(prepared, runner, folder).trial(0, prepared.space.baseline, small=False)
    if record.measurement is None:
        raise SystemExit(f"{example}: the baseline ended {record.outcome}: {record.failure}")
    return Chosen.make(example, prepared, record.measurement.sample_s, number, SEED)


def prepared_from(chosen: Chosen, source: Source) -> Prepared:
    """Return what the first run prepared: later ones measure under the same facts and limits."""
    facts = from_plain(Facts, chosen.facts)
    return Prepared(
        source=source,
        facts=facts,
        machine=from_plain(Machine, chosen.machine),
        space=chosen.space,
        limits=replace(chosen.limits, budget_s=WISHES.trial_budget_s, budget_max_s=WISHES.trial_budget_max_s),
        accelerator=facts.device != "cpu",
    )


def check_same(chosen: Chosen) -> None:
    """Stop where the figures would not belong to those that are there."""
    then, here = from_plain(Machine, chosen.machine).identity(), Machine.read().identity()
    if then != here:
        raise SystemExit(f"the table was begun on {then}, this is {here}: measure into another folder with --out")
    if chosen.scale != os.environ.get("EXAMPLE_SCALE", "1"):
        raise SystemExit(f"the table was begun with EXAMPLE_SCALE={chosen.scale}")


def line_of(turn: Turn, record: TrialRecord, prepared: Prepared, load: float) -> dict[str, Any]:
    """Return a trial as it stands in the table."""
    seen = observe(record, turn.config, deciding_limit(prepared.limits, prepared.accelerator), prepared.accelerator)
    found = record.measurement
    return {
        "number": turn.number,
        "kind": "baseline" if turn.baseline else "trial",
        "replicate": turn.replicate,
        "time": round(record.started_at, 1),
        "load": round(load, 2),
        "flags": list(found.flags) if found else [],
        "reason": record.failure.reason if record.failure else "",
        "peaks": asdict(found.lifetime) if found else {},
        "observation": seen.to_dict(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("example", choices=sorted(path.stem for path in EXAMPLES.glob("*.py")))
    parser.add_argument("--seconds", type=float, help="stop after so many; the trial that runs then is finished")
    parser.add_argument("--configs", type=int, default=CONFIGS, help="how many to draw, at the first run only")
    parser.add_argument("--replicates", type=int, default=REPLICATES)
    parser.add_argument("--out", type=Path, default=FOLDER)
    args = parser.parse_args()
    began = time.monotonic()
    args.out.mkdir(parents=True, exist_ok=True)
    chosen_path, table = args.out / f"{args.example}.configs.json", args.out / f"{args.example}.jsonl"
    source = Source(script=str(EXAMPLES / f"{args.example}.py"))
    with tempfile.TemporaryDirectory() as scratch:
        folder = RunFolder(Path(scratch))
        folder.create()
        runner = ForkServerRunner(folder.server_log)
        try:
            if not chosen_path.exists():
                begin(args.example, source, runner, folder, args.configs).save(chosen_path)
            chosen = Chosen.load(chosen_path)
            check_same(chosen)
            bench = Bench(prepared_from(chosen, source), runner, folder)
            done = len(table.read_text().splitlines()) if table.exists() else 0
            turns = plan(chosen, args.replicates, BASELINE_EVERY)
            for turn in turns[done:]:
                if args.seconds is not None and time.monotonic() - began >= args.seconds:
                    break
                load = os.getloadavg()[0]
                record = bench.trial(turn.number, turn.config, small=turn.replicate == 0 and not turn.baseline)
                line = line_of(turn, record, bench.prepared, load)
                with table.open("a") as file:
                    file.write(json.dumps(line) + "\n")
                done += 1
                shown = line["observation"]["sample_s"]
                figure = f"{1e6 * shown:.0f} us/sample" if shown else f"{record.outcome.value} {line['reason']}"
                print(f"{done}/{len(turns)} {record.wall_s:.1f} s: {figure}  {dict(turn.config)}", flush=True)
            print(f"{args.example}: {done} of {len(turns)} trials", flush=True)
        finally:
            runner.close()


if __name__ == "__main__":
    main()
