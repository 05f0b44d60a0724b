"""The time left that a search shows: a whole search is played on a clock of its own, verification and all."""

from __future__ import annotations

import dataclasses
import random

import pytest

from autotune.records import Phases, Source
from autotune.report.progress import Progress
from autotune.search.run import search_workload
from autotune.search.setup import Wishes
from autotune.trials.folder import RunFolder
from tests.search.simulated import SimulatedRunner

GIB = 1 << 30
SOON = 5
"""trials after which the time left should be about right"""
CLOSE = 0.25


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


class TimedRunner(SimulatedRunner):
    """Takes time on the clock: to start, to measure, and to measure compute alone, which a window leaves out."""

    def __init__(self, clock, **options):
        super().__init__(**options)
        self.clock, self.random = clock, random.Random(0)

    def _answer(self, spec):
        record = super()._answer(spec)
        start_s = 4.0 + (1.5 if spec.config.get("num_workers") else 0.0)
        measured_s = {"verification": 2.5, "numerics": 5.0}.get(spec.kind, 4.0) * self.random.uniform(0.8, 1.3)
        cached_s = 1.0 if spec.kind not in ("verification", "numerics") else 0.0
        wall_s = start_s + measured_s + cached_s
        self.clock.now += wall_s
        return dataclasses.replace(record, wall_s=wall_s, phases=Phases(cached_s=cached_s))


class Watcher:
    """A view that notes what it would show after each trial."""

    def __init__(self, clock):
        self.clock = clock
        self.state = Progress(clock)
        self.told = []
        """time, seconds left, share done"""

    def begin(self, title_lines, total_trials, timeout_s, after):
        self.state.begin(title_lines, total_trials, timeout_s, after)

    def trial_started(self, number, label, config, differs):
        self.state.trial_started(number, label, config, differs)

    def progress(self, message):
        self.state.message(message)

    def trial_ended(self, record, note=""):
        self.state.trial_ended(record)
        self.told.append((self.clock.now, self.state.left_s(), self.state.share_done()))

    def note(self, text): ...

    def finished(self): ...


def watch(tmp_path, verify, trials, seed, **options):
    script = tmp_path / "train.py"
    script.write_text("x = 1\n")
    clock = Clock()
    watcher = Watcher(clock)
    wishes = Wishes(trials=trials, seed=seed, host_memory_limit_bytes=GIB, headroom=0.0)
    runner = TimedRunner(clock, **options)
    folder = RunFolder(tmp_path / "run")
    search_workload(Source(script=str(script)), folder, wishes, watcher, verify=verify, runner=runner)
    return watcher, clock.now


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    return watch(tmp_path_factory.mktemp("played"), "full", 12, 1)


def check(watcher, end):
    now, left, share = watcher.told[SOON - 1]
    assert left == pytest.approx(end - now, rel=CLOSE)
    assert share == pytest.approx(now / end, rel=CLOSE)


def test_after_five_trials_the_time_left_is_about_right(played):
    check(*played)


@pytest.mark.slow
@pytest.mark.parametrize(("verify", "trials", "seed"), [("full", 24, 0), ("quick", 16, 2), ("none", 16, 3)])
def test_and_so_it_is_in_searches_of_other_lengths(tmp_path, verify, trials, seed):
    check(*watch(tmp_path, verify, trials, seed))


def test_the_time_left_runs_out_with_the_search(played):
    watcher, end = played
    now, left, share = watcher.told[-1]
    assert now == end
    assert left <= 0.15 * end
    assert share >= 0.85
