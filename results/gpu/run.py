"""Runs the parts one after the other, each in a process group of its own and within its time; see README.md.

A part writes as it goes, into a folder of its own: log.txt, what it measured as CSV and JSON, and summary.txt, whose
lines are for people. One that fails or runs out of time stops no other.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from page import write_page

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parents[1]
NEEDED = (
    "torch numpy scipy optuna sqlalchemy alembic typer rich psutil tomli_w cloudpickle greenlet pynvml".split()  # noqa: SIM905
)
GRACE_S = 15.0  # for a search to end cleanly with what it found
MOST_LINES = 30


@dataclass(frozen=True)
class Part:
    """One thing to do."""

    name: str
    seconds: float
    """on a card, for each of its workloads; times --times"""
    dry_s: float
    """of a dry run, in all"""
    tells: str
    workloads: int = 1
    """how many it has; --workloads chooses among them"""


PARTS = (
    Part("tests", 330, 120, "tests/gpu: what the CUDA path does, seen on the card"),
    Part("search", 150, 200, "the three examples searched and verified", 3),
    Part("agreement", 100, 150, "a trial's time against that of the example's own loop", 2),
    Part("memory", 240, 90, "the memory cap at 25 % and 50 % of the card"),
    Part("oracle", 560, 90, "a table of 60 configs of one example"),
    Part("rival", 570, 150, "pytorch-autotune's own three workloads, tuned by it and by us in equal time", 3),
)
NAMES = tuple(part.name for part in PARTS)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=NAMES, nargs="+", default=NAMES, help="these parts alone")
    parser.add_argument("--workloads", nargs="+", default=[], metavar="NAME", help="of search, agreement and rival")
    parser.add_argument("--times", type=float, default=1.0, help="give each part so many times its time")
    parser.add_argument("--out", type=Path, help="default: results/gpu/CARD, results/gpu/dry-run")
    parser.add_argument("--dry-run", action="store_true", help="tiny, on the CPU")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a time limit around all of it is an interruption
    needed = [*NEEDED, *(["pytest"] if "tests" in args.only else [])]
    missing = [name for name in needed if importlib.util.find_spec(name) is None]
    if missing:
        print(f"missing here: {', '.join(missing)}. Put them into a folder on PYTHONPATH; README.md says how.")
        return 2
    if not args.dry_run and not has_card():
        print("torch sees no CUDA card here. `results/gpu/run.sh --dry-run` does the same on the CPU, tiny.")
        return 2
    card = "dry-run" if args.dry_run else card_name()
    out = (args.out or FOLDER / re.sub(r"[^A-Za-z0-9]+", "-", card).strip("-").lower()).resolve()
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        print(f"cannot write to {out}: {error.strerror}. Name another folder with --out.")
        return 2
    began = time.monotonic()
    ended: dict[str, str] = {}
    for part in PARTS:
        if part.name in args.only:
            ended[part.name] = run(part, out, args)
            write_page(out, card, PARTS)
            if ended[part.name] == "interrupted":
                break
    print(summary(out, card, ended, time.monotonic() - began))
    return 0 if all(how == "done" for how in ended.values()) else 1


def has_card() -> bool:
    """Whether torch sees a CUDA card: asked in a process of its own, so that this one keeps off it."""
    code = "import torch; raise SystemExit(not torch.cuda.is_available())"
    return subprocess.run([sys.executable, "-c", code]).returncode == 0


def card_name() -> str:
    code = "import torch; print(torch.cuda.get_device_name(0))"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def run(part: Part, out: Path, args: argparse.Namespace) -> str:
    """Run one part; return how it ended."""
    folder = out / part.name
    folder.mkdir(exist_ok=True)
    (folder / "summary.txt").unlink(missing_ok=True)
    each = part.seconds * (len(args.workloads) or part.workloads) if part.workloads > 1 else part.seconds
    seconds = (part.dry_s if args.dry_run else each) * args.times
    print(f"{part.name}: {part.tells}, at most {seconds:.0f} s; its log: {folder / 'log.txt'}", flush=True)
    command = [sys.executable, str(FOLDER / f"{part.name}_part.py")]
    command += ["--out", str(folder), "--seconds", f"{seconds:.0f}"]
    command += ["--dry-run"] if args.dry_run else []
    command += ["--workloads", *args.workloads] if args.workloads else []
    began = time.monotonic()
    with (folder / "log.txt").open("wb") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, cwd=ROOT,
            env=environment(args.dry_run, out), start_new_session=True,
        )  # fmt: skip
        how = wait(process, seconds)
    took = f"{time.monotonic() - began:.0f} s"
    if how != "done":
        with (folder / "summary.txt").open("a") as file:
            file.write(f"{part.name}: {how} after {took}; see {part.name}/log.txt\n")
    print(f"{part.name}: {how}, {took}", flush=True)
    return how


def environment(dry_run: bool, out: Path) -> dict[str, str]:
    changes = {"CUDA_VISIBLE_DEVICES": "", "EXAMPLE_SCALE": "1", "OMP_NUM_THREADS": "1"} if dry_run else {}
    changes["AUTOTUNE_LOCKS"] = str(out / "locks")
    if not dry_run:
        changes["EXAMPLE_SCALE"] = "4"
    return {**os.environ, **changes}


def wait(process: subprocess.Popen[bytes], seconds: float) -> str:
    """Wait for a part and end its process group, at the latest when its time is up."""
    try:
        status = process.wait(seconds)
        how = "done" if status == 0 else f"failed (status {status})"
    except subprocess.TimeoutExpired:
        how = "out of time"
        end(process, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_S)
    except KeyboardInterrupt:
        how = "interrupted"
    end(process, signal.SIGKILL)
    process.wait()
    return how


def end(process: subprocess.Popen[bytes], number: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def summary(out: Path, card: str, ended: dict[str, str], seconds: float) -> str:
    """Return what is to be told at the end, and leave it in summary.txt: of every part that was ever run here."""
    lines = [f"autotune on {card}: {', '.join(f'{name} {how}' for name, how in ended.items())}; {seconds:.0f} s"]
    for name in NAMES:
        path = out / name / "summary.txt"
        if path.exists():
            lines += path.read_text().splitlines()
    if len(lines) > MOST_LINES - 1:
        lines = [*lines[: MOST_LINES - 2], f"... {len(lines) - MOST_LINES + 2} more lines in summary.txt of each part"]
    lines.append(f"report: {out / 'index.html'}")
    (out / "summary.txt").write_text("\n".join(lines) + "\n")
    shutil.rmtree(out / "locks", ignore_errors=True)
    return "\n".join(lines)


if __name__ == "__main__":
    raise SystemExit(main())
