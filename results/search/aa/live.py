"""Live A/A: `autotune verify --aa` on the examples, each claim a baseline against itself on this machine.

    python results/search/aa/live.py                                   # 4 claims an example; some 40 minutes
    python results/search/aa/live.py --examples digits_cnn --claims 1 --out /tmp/aa

Every claim appends its windows to live.jsonl, so that one that was stopped goes on where it was; live.md is written
from it. Nothing else may run meanwhile: a machine that changes is what the interleaving is for, a second load is not.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from autotune.machine import Machine
from autotune.search.verification import Verdict

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parents[2]
EXAMPLES = ("digits_cnn", "char_transformer", "jpeg_folder")
CLAIMS = 4
FALSE = {Verdict.FASTER.value, Verdict.SLOWER.value}
WINDOW = ("round", "arm", "sample_s", "flags")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--examples", nargs="+", choices=EXAMPLES, default=EXAMPLES)
    parser.add_argument("--claims", type=int, default=CLAIMS, help="of each example")
    parser.add_argument("--out", type=Path, default=FOLDER)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    kept = args.out / "live.jsonl"
    for seed in range(args.claims):  # by turns, so that no example has the night for itself
        for example in args.examples:
            if (example, seed) not in {(item["example"], item["seed"]) for item in read(kept)}:
                found = claim(example, seed)
                with kept.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(found) + "\n")
                (args.out / "live.md").write_text(page(read(kept)))
                print(line(found), flush=True)


def claim(example: str, seed: int) -> dict[str, Any]:
    """Let the command verify a baseline against itself; return what its JSON says of verdict and windows."""
    load, began = os.getloadavg()[0], time.monotonic()
    command = [sys.executable, "-m", "autotune", "verify", str(ROOT / "results/agreement/best" / f"{example}.toml")]
    command += ["--script", str(ROOT / "examples" / f"{example}.py"), "--aa", "--seed", str(seed), "--json"]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True)
    document = json.loads(done.stdout)
    return {
        "example": example,
        "seed": seed,
        "date": str(datetime.date.today()),
        "load": round(load, 2),
        "wall_s": round(time.monotonic() - began),
        "verdict": document["verdict"],
        "reason": document["reason"],
        "looks": [{name: look[name] for name in ("pairs", "speedup", "lower", "upper")} for look in document["looks"]],
        "windows": [{name: window[name] for name in WINDOW} for window in document["windows"]],
    }


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(item) for item in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def line(found: dict[str, Any]) -> str:
    last = found["looks"][-1] if found["looks"] else {"pairs": 0, "speedup": 0.0, "lower": 0.0, "upper": 0.0}
    return (
        f"| {found['example']} | {found['seed']} | {last['pairs']} | {last['speedup']:.3f} "
        f"| {last['lower']:.3f} to {last['upper']:.3f} | {found['verdict']} | {found['load']:.1f} |"
    )


def page(claims: list[dict[str, Any]]) -> str:
    machine = Machine.read()
    wrong = sum(item["verdict"] in FALSE for item in claims)
    return "\n".join(
        [
            "# Live A/A: the baseline against itself",
            "",
            f"{len(claims)} claims, {wrong} of them false (FASTER or SLOWER where nothing differs).",
            "`autotune verify --aa`, with looks after 6, 9 and 12 interleaved rounds in fresh processes. Load: of the",
            f"minute before. {machine.cpu}, {machine.usable_cores:g} cores, torch {machine.versions['torch']}.",
            "",
            "| example | seed | rounds | speed-up | its interval | verdict | load |",
            "|---|---|---|---|---|---|---|",
            *map(line, claims),
            "",
            "Made by `python results/search/aa/live.py`; every window's time is in live.jsonl.",
            "",
        ]
    )


if __name__ == "__main__":
    main()
