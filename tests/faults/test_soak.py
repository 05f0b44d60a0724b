"""Many trials in one search: the steering process and the time per trial stay as they were."""

from __future__ import annotations

import statistics
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from autotune.records import Source, TrialRecord, TrialSpec
from autotune.search.run import search_workload
from autotune.search.setup import Wishes
from autotune.trials.folder import RunFolder
from autotune.trials.runner import ForkServerRunner
from tests.faults.steering import EXCLUDED, SCRIPT
from tests.search.simulated import Listener

GROWTH_BYTES = 60 << 20  # records of 300 trials are kept in memory: some megabytes, and the study's cache as much


class Watching:
    """Runs real trials and looks at this process, the server and the machine after each."""

    def __init__(self, log: Path) -> None:
        self._others = set(psutil.Process().children(recursive=True))  # fork servers that tests share
        self._runner = ForkServerRunner(log)
        self.looks: list[dict[str, float]] = []

    def run(self, spec: TrialSpec, log: Path, report: Any) -> TrialRecord:
        began = time.perf_counter()
        record = self._runner.run(spec, log, report)
        me = psutil.Process()
        family = self.family()
        self.looks.append(
            {
                "bytes": me.memory_info().rss,
                "files": me.num_fds(),
                "threads": me.num_threads(),
                "processes": len(family),
                "server_files": max((child.num_fds() for child in family), default=0),
                "overhead_s": time.perf_counter() - began - record.phases.total_s,
            }
        )
        return record

    def family(self) -> set[psutil.Process]:
        return set(psutil.Process().children(recursive=True)) - self._others

    def close(self) -> None:
        self._runner.close()


def soak(home: Path, trials: int) -> list[dict[str, float]]:
    (home / "train.py").write_text(SCRIPT)
    wishes = Wishes(
        trials=trials, sampler="random", trial_budget_s=0.2, target=0.5, max_batch=64,
        restricted={"num_workers": [0, 1], "batch_size": [8, 16, 24, 32, 40, 48, 56, 64]}, excluded=EXCLUDED,
    )  # fmt: skip
    runner = Watching(home / "server.log")
    source, folder = Source(script=str(home / "train.py")), RunFolder(home / "run")
    try:
        search_workload(source, folder, wishes, Listener(), verify="none", runner=runner)
    finally:
        runner.close()
    assert runner.family() == set()
    return runner.looks


def check_flat(looks: list[dict[str, float]], warm: int) -> None:
    """Nothing grows between the trials after the first `warm` ones and the last ones."""
    early, late = looks[warm : warm + 4], looks[-4:]

    def middle(name: str, part: list[dict[str, float]]) -> float:
        return statistics.median(look[name] for look in part)

    for name in ("files", "threads", "processes", "server_files"):
        assert middle(name, late) <= middle(name, early) + 1, (name, early, late)
    assert middle("bytes", late) - middle("bytes", early) < GROWTH_BYTES


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_dozen_trials_leave_the_process_as_it_was(tmp_path):
    looks = soak(tmp_path, 12)
    assert len(looks) >= 12
    check_flat(looks, warm=4)


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_three_hundred_trials_leave_the_process_as_it_was(tmp_path):
    looks = soak(tmp_path, 300)
    assert len(looks) >= 300
    check_flat(looks, warm=20)
    # what the tool adds to a trial's own time; thirds of the search differ in how busy the machine is, not tenfold
    thirds = [statistics.median(look["overhead_s"] for look in looks[start : start + 90]) for start in (10, 205)]
    assert thirds[1] < 5 * max(thirds[0], 0.05), thirds
