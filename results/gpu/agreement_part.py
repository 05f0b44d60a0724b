"""What a trial measures against what the example's own loop gets: results/agreement, on this card."""

from __future__ import annotations

import csv

from parts import LAST_S, ROOT, Part, call

EXAMPLES = ("char_transformer", "digits_cnn")
ROUNDS = 3


def main() -> int:
    part = Part.begin(EXAMPLES, dry=EXAMPLES[1:])
    command = [str(ROOT / "results/agreement/run.py"), "--out", str(part.out), "--examples", *part.workloads]
    command += ["--rounds", "1" if part.dry_run else str(ROUNDS)]
    found = [(name, part.out.parent / "search" / name / "best.toml") for name in part.workloads]
    best = [f"{name}={path}" for name, path in found if path.exists()]
    # what a search has chosen is what people will train with
    command += ["--configs", "best", "--best", *best] if best and not part.dry_run else ["--configs", "baseline"]
    command += ["--own-epochs", "1", "--own-seconds", "1"] if part.dry_run else []
    status = call(command, timeout=part.left_s() - LAST_S)
    table = part.out / "agreement.csv"
    for row in csv.DictReader(table.open()) if table.exists() else ():
        interval = "" if row["lower"] == "nan" else f" ({float(row['lower']):.3f} to {float(row['upper']):.3f})"
        part.say(f"agreement: {row['example']} {row['config']}: own / trial {float(row['ratio']):.3f}{interval}")
    return status


if __name__ == "__main__":
    raise SystemExit(main())
