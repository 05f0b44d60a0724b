"""tests/gpu by pytest; a dry run only collects them."""

from __future__ import annotations

import importlib.util
import signal
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

from parts import Part

FILES = ("card", "options", "trials", "searches")  # where the time ends early, the part "search" has searches, too
REPORT_S = 20.0  # for pytest to write its report, once it is interrupted


def main() -> int:
    part = Part.begin(())
    report = part.out / "junit.xml"
    report.unlink(missing_ok=True)
    command = [
        "-m",
        "pytest",
        "-m",
        "gpu",
        *(f"tests/gpu/test_{name}.py" for name in FILES),
        "-o",
        "addopts=",  # one at a time on the card
        "-W",
        "default",
        "-p",
        "no:cacheprovider",
        "--durations=10",
        f"--junitxml={report}",
    ]
    command += ["--collect-only", "-q"] if part.dry_run else ["-v"]
    if not part.dry_run and importlib.util.find_spec("pytest_timeout"):
        command += ["--timeout=100"]
    status, whole = run(command, part.left_s() - REPORT_S)
    if part.dry_run:
        part.say(f"tests: collected, status {status}")
        return status
    if not report.exists():
        part.say(f"tests: pytest wrote no report, status {status}; see tests/log.txt")
        return 1
    rows = []
    for case in ElementTree.parse(report).iter("testcase"):
        trouble = next((item for item in case if item.tag in ("failure", "error", "skipped")), None)
        rows.append(
            {
                "test": f"{case.get('classname', '').rpartition('.')[2]}::{case.get('name')}",
                "outcome": "passed" if trouble is None else trouble.tag,
                "seconds": case.get("time"),
                "message": "" if trouble is None else (trouble.get("message") or "").splitlines()[0][:160],
            }
        )
    part.table("tests", rows)
    counts = {name: sum(row["outcome"] == name for row in rows) for name in ("passed", "failure", "error", "skipped")}
    told = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    part.say(f"tests: {told or 'none ended'}" + ("" if whole else "; the time was up before the others"))
    for row in [row for row in rows if row["outcome"] in ("failure", "error")][:5]:
        part.say(f"tests: {row['test']}: {row['message']}")
    return 0 if status == 0 else 1


def run(command: list[str], seconds: float) -> tuple[int, bool]:
    """Run pytest; interrupt it when its time is up, so that it still reports what it has seen.

    Returns:
        Its status, and whether it came to its end.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored by what a shell starts in the background
    process = subprocess.Popen([sys.executable, *command])
    try:
        return process.wait(max(1.0, seconds)), True
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        return process.wait(), False


if __name__ == "__main__":
    raise SystemExit(main())
