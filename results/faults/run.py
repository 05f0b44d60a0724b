"""What does autotune do when something around it fails? Each fault is really made, and what is seen is written down.

    python results/faults/run.py            # the short form of each; some minutes
    python results/faults/run.py --long     # fifty kills, ten thousand files, three hundred trials; half an hour
    python results/faults/run.py --only test_kill --out /tmp/faults

The demonstrations are the tests of tests/faults, which make the fault and check what must hold. What was seen is kept
in seen.json, so that parts can be made anew, and table.md is written from it: fault, tried how, expected, seen.
"""

from __future__ import annotations

import argparse
import datetime
import json
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path

from autotune.machine import Machine

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parents[1]


@dataclass(frozen=True)
class Fault:
    """One line of the table."""

    fault: str
    how: str
    expected: str
    file: str
    """of tests/faults"""
    test: str
    """pytest's -k"""
    long: bool = False

    @property
    def name(self) -> str:
        return f"{self.file} {self.test}{' (long)' if self.long else ''}".strip()


KILLED = (
    "no record lost, none counted twice, no process, segment, draft or lock left; the answer of an undisturbed search"
)
FAULTS = (
    Fault(
        "kill of the search",
        "SIGKILL in the middle of a trial; resumed",
        KILLED,
        "test_kill.py",
        "middle_of_trials",
    ),
    Fault(
        "kill of the search",
        "SIGKILL, SIGTERM, SIGINT and a closed terminal in the middle of trials; resumed each time",
        KILLED,
        "test_kill.py",
        "middle_of_trials",
        long=True,
    ),
    Fault(
        "kill of the search",
        "SIGKILL at 15 random moments of a simulated search, resumed each time",
        KILLED,
        "test_kill.py",
        "between_record",
    ),
    Fault(
        "kill of the search",
        "SIGKILL at 50 random moments of a simulated search, resumed each time",
        KILLED,
        "test_kill.py",
        "between_record",
        long=True,
    ),
    Fault(
        "kill of the search",
        "50 random moments, four ways at random, real trials",
        KILLED,
        "test_kill.py",
        "fifty_random",
        long=True,
    ),
    Fault(
        "kill of a part",
        "SIGKILL of a trial, of a loader worker, of the fork server",
        "an outcome of that trial; the search goes on",
        "test_kill.py",
        "killed_part",
        long=True,
    ),
    Fault(
        "full disk",
        "a tmpfs that another writer fills during a trial; room is made, then resumed",
        "one message; all records stay; the search goes on",
        "test_surroundings.py",
        "fills_up",
    ),
    Fault(
        "read-only folder",
        "a tmpfs mounted read-only",
        "one message before anything runs",
        "test_surroundings.py",
        "read_only",
    ),
    Fault(
        "locked storage",
        "another connection holds the study's file for 6.5 s",
        "the search waits and goes on",
        "test_surroundings.py",
        "locked_for_a_while",
    ),
    Fault(
        "locked storage",
        "another connection never lets go",
        "one message; all records stay; resumes as undisturbed",
        "test_surroundings.py",
        "stays_locked",
    ),
    Fault(
        "clock",
        "the wall clock jumps a year back and a day forward, by turns",
        "the same search",
        "test_surroundings.py",
        "clock",
    ),
    Fault(
        "stopped search",
        "SIGSTOP during a trial, SIGCONT three seconds later",
        "the search goes on and counts right",
        "test_surroundings.py",
        "stopped",
    ),
    Fault(
        "two searches at once",
        "a second one on the device, in the folder; holders that die",
        "refused by name of the holder, or waits; a dead holder keeps nothing",
        "test_lock.py",
        "",
    ),
    Fault(
        "another search in the folder",
        "script, data, model, space, torch, device, limits, ... changed, then --resume",
        "refused; each field that differs is named",
        "test_resume.py",
        "",
    ),
    Fault(
        "disturbed trials",
        "contention flags on trials and on verification windows, a baseline that drifts",
        "one repeat that counts in its place; no claim where windows stay disturbed; drift is said",
        "test_repeats.py",
        "",
    ),
    Fault(
        "busy machine",
        "busy loops on every core; --wait-idle",
        "waits, says why, and ends its patience in words",
        "test_quiet.py",
        "",
    ),
    Fault(
        "hostile files",
        "300 mutated files of a run folder; pipes, giants, pickles, markup, escapes",
        "one message or a sound reading; nothing executed, no hang, no growth",
        "test_untrusted.py",
        "not thousand",
    ),
    Fault(
        "hostile files",
        "10,000 mutated files of a run folder",
        "one message or a sound reading",
        "test_untrusted.py",
        "thousand",
        long=True,
    ),
    Fault(
        "manners",
        "an audit hook in every process of a search",
        "no shell, no network, no file outside the run folder",
        "test_manners.py",
        "",
    ),
    Fault(
        "long search",
        "12 trials in one search",
        "memory, files, threads and processes stay as they were",
        "test_soak.py",
        "dozen",
        long=True,
    ),
    Fault(
        "long search",
        "300 trials in one search",
        "the same, and the time per trial",
        "test_soak.py",
        "three_hundred",
        long=True,
    ),
)


def try_out(fault: Fault) -> str:
    """Make the fault; return what was seen, in words."""
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "report.xml"
        command = [
            sys.executable, "-m", "pytest", "-q", "-n", "0", "--reruns", "0", f"--junitxml={report}",
            f"tests/faults/{fault.file}", "-m", "slow" if fault.long else "not slow",
            *(["-k", fault.test] if fault.test else []),
        ]  # fmt: skip
        began = time.perf_counter()
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
        seconds = time.perf_counter() - began
        cases = list(ElementTree.parse(report).iter("testcase")) if report.exists() else []
    failed = [case for case in cases if case.find("failure") is not None or case.find("error") is not None]
    skipped = [case for case in cases if case.find("skipped") is not None]
    if failed or not cases:
        print(done.stdout, file=sys.stderr)
        names = ", ".join(str(case.get("name")) for case in failed)
        return f"NOT as expected: {names or 'nothing ran'}"
    passed = len(cases) - len(skipped)
    left_out = ""
    if skipped:
        why = skipped[0].find("skipped")
        left_out = f"; {len(skipped)} left out: {'' if why is None else why.get('message')}"
    return f"as expected: {passed} {'check' if passed == 1 else 'checks'}, {seconds:.0f} s{left_out}"


def table(seen: dict[str, str]) -> str:
    machine = Machine.read()
    versions = ", ".join(f"{name} {version}" for name, version in machine.versions.items())
    lines = [
        "# Faults, and what was seen",
        "",
        f"{machine.cpu}, {machine.usable_cores:g} usable cores, {machine.memory_bytes >> 30} GiB; "
        f"Python {machine.python}, {versions}.",
        "Made by `python results/faults/run.py --long`.",
        "",
        "| fault | tried how | expected | seen |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| {item.fault} | {item.how} | {item.expected} | {seen.get(item.name, 'not tried yet')} |" for item in FAULTS
    ]
    return "\n".join([*lines, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--long", action="store_true", help="the long forms too")
    parser.add_argument("--only", default="", help="faults whose test has this in its name")
    parser.add_argument("--out", type=Path, default=FOLDER)
    arguments = parser.parse_args()
    chosen = [item for item in FAULTS if arguments.only in item.name and (arguments.long or not item.long)]
    arguments.out.mkdir(parents=True, exist_ok=True)
    kept = arguments.out / "seen.json"
    for item in chosen:
        words = f"{try_out(item)}, {datetime.date.today()}"
        print(f"{item.name}: {words}", flush=True)
        seen = json.loads(kept.read_text()) if kept.exists() else {}  # another part may have been made meanwhile
        kept.write_text(json.dumps({**seen, item.name: words}, indent=1) + "\n")
        (arguments.out / "table.md").write_text(table({**seen, item.name: words}))


if __name__ == "__main__":
    main()
