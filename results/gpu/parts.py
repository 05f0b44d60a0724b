"""What the parts share: their arguments, and how they leave lines and tables behind."""

from __future__ import annotations

import argparse
import csv
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parents[1]
OUT_OF_TIME = 124
LAST_S = 15.0  # of a part, to tell what it found


@dataclass
class Part:
    """One running part."""

    out: Path
    dry_run: bool
    workloads: Sequence[str]
    seconds: float
    began: float = field(default_factory=time.monotonic)

    @classmethod
    def begin(cls, workloads: Sequence[str], dry: Sequence[str] = ()) -> Part:
        """Read the command line; `workloads` may be chosen from, `dry` are those of a dry run."""
        parser = argparse.ArgumentParser()
        parser.add_argument("--out", type=Path, required=True)
        parser.add_argument("--seconds", type=float, required=True)
        parser.add_argument("--workloads", nargs="+", default=[])
        parser.add_argument("--dry-run", action="store_true")
        args = parser.parse_args()
        known = [name for name in args.workloads if name in workloads]
        chosen = known or (dry if args.dry_run and dry else workloads)
        return cls(args.out, args.dry_run, chosen, args.seconds)

    def left_s(self) -> float:
        return self.seconds - (time.monotonic() - self.began)

    def say(self, line: str) -> None:
        """Add a line to the summary; it is there whatever comes later."""
        print(line, flush=True)
        with (self.out / "summary.txt").open("a") as file:
            file.write(line + "\n")

    def table(self, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write a table anew."""
        columns = list(dict.fromkeys(key for row in rows for key in row))
        with (self.out / f"{name}.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, columns, restval="")
            writer.writeheader()
            writer.writerows(rows)


def search(part: Part, command: Sequence[str], **others: Any) -> int:
    """Run a search; where it fails, run it once more without the sandbox, and say so: the rest is still to be seen."""
    began = part.left_s()
    status = call(command, **others)
    took = began - part.left_s()
    if status == 0 or part.left_s() < took:
        return status
    part.say(f"{part.out.name}: a search ended with status {status} after {took:.0f} s; again, with --no-sandbox")
    return call([*command, "--no-sandbox"], **others)


def call(command: Sequence[str], *, timeout: float | None = None, **others: Any) -> int:
    """Run a Python program of this repository, what it prints goes to the part's log; 124: its time was up."""
    print(f"+ python {' '.join(command)}", flush=True)
    try:
        return subprocess.run([sys.executable, *command], timeout=timeout, **others).returncode
    except subprocess.TimeoutExpired:
        print("its time was up", flush=True)
        return OUT_OF_TIME
