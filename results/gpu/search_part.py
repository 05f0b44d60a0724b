"""The three examples, sized for a GPU, searched as a user would search them, and verified."""

from __future__ import annotations

import os
import tomllib
from typing import Any

from parts import LAST_S, ROOT, Part, call, search

from autotune.records import Outcome
from autotune.report.run import read_run
from autotune.trials.folder import RunFolder

EXAMPLES = ("char_transformer", "digits_cnn", "jpeg_folder")
TRIALS = 24
SCALES = {"jpeg_folder": "2"}  # of the others: what run.py says; cutting more photographs takes a minute
DRY = "--device cpu --quick --trial-budget 1 --baseline batch_size=8,num_workers=0 --max-batch 16"
DRY += " --exclude num_workers,compile_mode"

CUT = "import sys; sys.path.insert(0, 'examples'); import jpeg_folder; jpeg_folder.build_dataset()"


def main() -> int:
    part = Part.begin(EXAMPLES, dry=EXAMPLES[:1])
    rows, failed = [], 0
    for index, example in enumerate(part.workloads):
        share_s = (part.left_s() - 2 * LAST_S) / (len(part.workloads) - index)
        folder = part.out / example
        command = ["-m", "autotune", "search", str(ROOT / "examples" / f"{example}.py")]
        command += ["--out", str(folder), "--force"]
        command += ["--trials", "2" if part.dry_run else str(TRIALS), "--verify", "none" if part.dry_run else "quick"]
        command += DRY.split() if part.dry_run else ("--timeout", f"{share_s:.0f}", "--trial-timeout", "120")
        scale = os.environ["EXAMPLE_SCALE"] if part.dry_run else SCALES.get(example, os.environ["EXAMPLE_SCALE"])
        if example == "jpeg_folder":  # here, once: what a trial writes goes with it
            call(["-c", CUT], env={**os.environ, "EXAMPLE_SCALE": scale})
        status = search(part, command, env={**os.environ, "EXAMPLE_SCALE": scale})
        failed += status != 0
        row = (
            outcome(example, RunFolder(folder)) if status == 0 else {"example": example, "verdict": f"status {status}"}
        )
        rows.append(row)
        part.table("searches", rows)
        part.say(f"search: {example}: {row['verdict']}; {row.get('trials', 0)} trials; {row.get('changes', '')}")
    return 1 if failed else 0


def outcome(example: str, folder: RunFolder) -> dict[str, Any]:
    """Return one line of the table from a run folder."""
    best = tomllib.loads(folder.best.read_text())
    run = read_run(folder)
    records = run.screening
    options = best["options"]
    measured = best["measured"]
    return {
        "example": example,
        "verdict": measured.get("status", ""),
        "trials": len(records),
        "failed": sum(not record.outcome.measured for record in records),
        "out_of_memory": sum(record.outcome is Outcome.OUT_OF_MEMORY for record in records),
        "median_trial_s": f"{sorted(record.wall_s for record in records)[len(records) // 2]:.1f}",
        "changes": ", ".join(f"{key}={value}" for key, value in options.items() if value != run.baseline.value(key)),
        "baseline_samples_per_s": measured.get("baseline_samples_per_s", ""),
        "best_samples_per_s": measured.get("config_samples_per_s", ""),
        "flags": " ".join(sorted({flag for item in records if item.measurement for flag in item.measurement.flags})),
    }


if __name__ == "__main__":
    raise SystemExit(main())
