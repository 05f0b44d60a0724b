"""The tool and its peers at equal wall time on each example, every final config verified by the same protocol.

    python results/search/peers/run.py                              # 10 minutes each; about five hours in all
    python results/search/peers/run.py --budget 60 --examples digits_cnn --only by_hand --out /tmp/peers

Peers that need packages get an environment of their own (--environments). Each example and peer has one JSON file, so
that a run that was stopped goes on where it was; peers.md is written again after each. Nothing else may run meanwhile.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from environments import CACHE, REQUIREMENTS, NotInstalled, python_for
from report import OURS, write
from rich.console import Console
from task import Final, Task
from verified import DESIGNS, Arm, Verifier

from autotune.config import Config
from autotune.machine import Machine
from autotune.records import Source
from autotune.report.plain_view import PlainView
from autotune.search.run import search_workload
from autotune.search.setup import Prepared, Wishes, prepare
from autotune.trials.folder import RunFolder, write_atomically
from autotune.trials.runner import ForkServerRunner

FOLDER = Path(__file__).resolve().parent
EXAMPLES = FOLDER.parents[2] / "examples"
NAMES = (OURS, *REQUIREMENTS)
BUDGET_S = 600.0
OVERTIME = 1.2  # of the budget, for a peer that keeps to it only roughly; then its last answer counts
WISHES = Wishes(trial_timeout_s=1200.0)  # a peer's batch may be the whole dataset


class Example:
    """One example on this machine."""

    def __init__(self, name: str, folder: RunFolder, runner: ForkServerRunner, out: Path) -> None:
        self.name, self.out = name, out
        self.source = Source(script=str(EXAMPLES / f"{name}.py"))
        self.prepared: Prepared = prepare(self.source, WISHES, runner, folder)
        self.verifier = Verifier(self.prepared, WISHES, folder, runner)

    def path(self, peer: str) -> Path:
        return self.out / f"{self.name}-{peer}.json"

    def load(self, peer: str) -> dict[str, Any]:
        """Return what is known of a peer; nothing where it has not tuned yet."""
        found: dict[str, Any] = json.loads(self.path(peer).read_text()) if self.path(peer).exists() else {}
        return found

    def save(self, line: dict[str, Any]) -> None:
        write_atomically(self.path(line["peer"]), json.dumps(line, indent=1) + "\n")

    def tune(self, peer: str, budget_s: float, environments: Path) -> dict[str, Any]:
        """Let a peer tune; return its answer, or why there is none."""
        line: dict[str, Any] = {"example": self.name, "peer": peer, "budget_s": budget_s, "load": os.getloadavg()[0]}
        line |= {"machine": Machine.read().to_dict(), "baseline": dict(self.prepared.space.baseline)}
        try:
            python = "" if peer == OURS else python_for(peer, environments)
        except NotInstalled as error:
            return line | {"error": f"not installed: {error}"}
        began = time.monotonic()
        found = self._ours(budget_s) if peer == OURS else self._peer(peer, python, budget_s)
        line |= found | {"wall_s": time.monotonic() - began}
        if "final" in line:
            line["changes"] = self._arm(line).config.difference(self.prepared.space.baseline)
        return line

    def _ours(self, budget_s: float) -> dict[str, Any]:
        with tempfile.TemporaryDirectory() as scratch:
            wishes = Wishes(timeout_s=budget_s)
            result = search_workload(self.source, RunFolder(Path(scratch)), wishes, PlainView(Console()))
            answer = result.answers[0]
            return {"final": asdict(Final(config=dict(answer.config), own_claim=answer.sentence))}

    def _peer(self, peer: str, python: str, budget_s: float) -> dict[str, Any]:
        space = self.prepared.space
        with tempfile.TemporaryDirectory() as scratch:
            answer, task_file, log = (Path(scratch) / name for name in ("answer.json", "task.json", "log"))
            task = Task(
                script=self.source.script,
                budget_s=budget_s,
                baseline=dict(space.baseline),
                expert=dict(space.expert()),
                choices={name: list(values) for name, values in space.choices.items()},
                memory_bytes=self.prepared.limits.host_bytes,
                answer=str(answer),
            )
            task_file.write_text(json.dumps({name: value for name, value in asdict(task).items() if name != "began"}))
            with log.open("wb") as output:
                process = subprocess.Popen(
                    [python, str(FOLDER / "worker.py"), peer, str(task_file)],
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    cwd=scratch,
                    start_new_session=True,
                )
                stopped = _wait(process, OVERTIME * budget_s)
            found: dict[str, Any] = {"stopped": stopped}
            if process.returncode and not stopped:
                found["error"] = " ".join(log.read_text(errors="replace").strip().splitlines()[-1:])[:300]
            if answer.exists():
                return found | {"final": json.loads(answer.read_text())}
            return found | {"error": found.get("error") or "no answer in time"}

    def verify(self, peer: str, how: str) -> None:
        """Add what is missing: the answer against the baseline, and the tool's answer against it."""
        line, ours = self.load(peer), self.load(OURS)
        if "final" not in line:
            return
        arm, baseline = self._arm(line), Arm(self.prepared.space.baseline)
        if "over_baseline" not in line:
            self.save(line | {"over_baseline": self.verifier.compare(baseline, arm, how)})
        if "final" in ours and peer != OURS and "ours_over_it" not in line:
            self.save(self.load(peer) | {"ours_over_it": self.verifier.compare(arm, self._arm(ours), how)})

    def _arm(self, line: dict[str, Any]) -> Arm:
        final = line["final"]
        known = {name: value for name, value in final["config"].items() if name in self.prepared.space.choices}
        return Arm(self.prepared.space.canonical(Config(**known)), final["compile_mode"])


def _wait(process: subprocess.Popen[bytes], seconds: float) -> bool:
    """Wait for a peer; return whether it had to be ended. No process of its group is left."""
    try:
        process.wait(seconds)
        stopped = False
    except subprocess.TimeoutExpired:
        stopped = True
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    return stopped


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = sorted(path.stem for path in EXAMPLES.glob("*.py"))
    parser.add_argument("--budget", type=float, default=BUDGET_S, metavar="SECONDS", help="wall time of each peer")
    parser.add_argument("--examples", nargs="+", choices=names, default=names)
    parser.add_argument("--only", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument("--verify", choices=[*DESIGNS, "none"], default="full", help="none: tune only")
    parser.add_argument("--environments", type=Path, default=CACHE, help="folder of the peers' environments")
    parser.add_argument("--out", type=Path, default=FOLDER)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    for name in args.examples:
        with tempfile.TemporaryDirectory() as scratch:
            folder = RunFolder(Path(scratch))
            folder.create()
            runner = ForkServerRunner(folder.server_log)
            try:
                example = Example(name, folder, runner, args.out)
                for peer in args.only:
                    if not example.load(peer):
                        print(f"{name}: {peer} tunes", flush=True)
                        example.save(example.tune(peer, args.budget, args.environments))
                for peer in args.only if args.verify != "none" else ():
                    print(f"{name}: {peer} is verified", flush=True)
                    example.verify(peer, args.verify)
                    write(args.out)
            finally:
                runner.close()
    write(args.out)


if __name__ == "__main__":
    main()
