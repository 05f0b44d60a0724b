"""What a running search shows, in a terminal and without one. No test waits for anything."""

from __future__ import annotations

import itertools
import re

import pytest
from rich.cells import cell_len

from autotune.config import Config
from autotune.records import Outcome
from autotune.report.live import REDRAWS_PER_S, LiveView
from autotune.report.plain_view import PlainView
from autotune.report.progress import Progress
from autotune.report.view import make_view
from autotune.search.verification.windows import Bench
from tests.report.factory import console_of, failed, ok, text_of
from tests.report.test_table import CLAIM


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


def play(view, records, clock, total=24, notes=None):
    """Tell a view of a whole search."""
    view.begin(["train[1].py on A CPU", "24 trials"], total, 600.0)
    for record in records:
        differs = {name: value for name, value in record.config.items() if (name, value) != ("batch_size", 64)}
        view.trial_started(record.number, "baseline" if not differs else "expert", record.config, differs)
        view.progress({"phase": "warm-up"})
        for block in range(3):
            view.progress({"phase": "window", "block": block, "sample_s": 0.001 * (1 + block)})
        clock.now += record.wall_s
        view.trial_ended(record, (notes or {}).get(record.number, ""))


@pytest.mark.parametrize(
    ("options", "environ", "kind"),
    [
        ({"force_terminal": True}, {}, LiveView),
        ({"force_terminal": True}, {"CI": "true"}, PlainView),
        ({"force_terminal": False}, {}, PlainView),
        ({"force_terminal": True, "force_interactive": False}, {}, PlainView),
    ],
)
def test_view_fits_the_console(options, environ, kind):
    assert type(make_view(console_of(80, **options), environ)) is kind


def test_plain_view_prints_one_line_a_trial(mixed, clock):
    console = console_of(40)  # a narrow console breaks no line of a log
    view = PlainView(console, clock)
    play(view, mixed, clock, notes={3: "best so far [so]"})
    view.note("machine [drifted]")
    view.finished()
    view.finished()
    lines = text_of(console).splitlines()
    assert lines[:2] == ["train[1].py on A CPU", "24 trials"]
    assert lines[2] == "[1/24] trial 0, baseline: 1000 samples/s (±2.0 % within the run), peak 1.00 GiB"
    assert lines[4].endswith("peak 1.00 GiB; flags: noisy cpu_contended")
    assert lines[5].endswith("; best so far [so]")
    assert lines[6].endswith("peak 9.00 GiB, over the memory limit")
    assert lines[7] == "[6/24] trial 5, expert: batch_size=8192: out of memory (out of device memory)"
    assert lines[8] == "[7/24] trial 6, expert: num_workers=2: error (ValueError)"
    assert lines[-2] == "machine [drifted]"
    assert (
        lines[-1]
        == "8 trials, 1 window of the verification in 52 s: 5 ok, 1 over limit, 1 out of memory, 1 error, 1 pruned"
    )
    assert len(lines) == 2 + 9 + 2


def test_windows_that_are_measured_once_more_count_once(clock):
    console, numbers = console_of(80), itertools.count()
    view = PlainView(console, clock)
    view.begin(["the baseline against the config"], 2, None)

    def disturbed(config, label):
        view.trial_started(number := next(numbers), label, config, {})
        record = ok(number, config, kind="verification", flags=("gpu_shared",))
        view.trial_ended(record)
        return record

    bench = Bench(disturbed)
    for round in range(2):
        bench.take(Config(), stage="claim", round=round, rounds=2, arm="baseline")
    view.finished()
    assert re.findall(r"\[\S+\]", text_of(console)) == ["[1/2]", "[1/2]", "[2/2]", "[2/2]"]
    assert "\n2 trials in " in text_of(console)


def test_plain_view_has_no_escapes_even_with_colours(mixed, clock):
    console = console_of(80, force_terminal=True, color_system="truecolor")
    view = PlainView(console, clock)
    play(view, [*mixed, failed(9, outcome=Outcome.ERROR, reason="\x1b[31mred [bold]")], clock)
    view.finished()
    assert "\x1b" not in text_of(console)
    assert "error (red [bold])" in text_of(console)


def test_no_claim_is_made(mixed, clock):
    plain, screen = console_of(80), console_of(80)
    play(PlainView(plain, clock), mixed, clock)
    view = LiveView(screen, clock)
    play_state(view, mixed, clock)
    screen.print(view.render())
    assert not CLAIM.search(text_of(plain))
    assert not CLAIM.search(text_of(screen))


def play_state(view, records, clock):
    """Play without starting the thread that draws."""
    view._live = object()
    play(view, records, clock)


@pytest.mark.parametrize("width", [60, 80, 160])
def test_live_view_shows_where_the_search_is(mixed, clock, width):
    console = console_of(width)
    view = LiveView(console, clock)
    play_state(view, mixed, clock)
    view.trial_started(9, "largest batch", {"batch_size": 256}, {"batch_size": 256})
    for value in (1, 2, 3, "x", None, -1):
        view.progress({"phase": "window", "sample_s": value})
    console.print(view.render())
    text = text_of(console)
    assert max(map(cell_len, text.splitlines())) <= width
    squeezed = " ".join(text.split())
    assert "5 ok, 1 over limit, 1 out of memory, 1 error, 1 pruned" in squeezed
    for part in (
        "train[1].py on A CPU",
        "8/24 trials, window 1, ",
        "trial 9 (largest batch) batch_size=256",
        "window  ▁▅█",
        "1. 1920 samples/s ±2.0 %",
        "3.  980 samples/s",
        "the times scatter",
    ):
        assert part in text
    assert "2500" not in text  # over the limit: not among the best
    assert "10000" not in text  # a window of the verification is no result of the search
    assert "clearly slower" not in text  # cut short by design: nothing to warn of


def test_live_view_starts_and_stops(mixed, clock):
    console = console_of(80, force_terminal=True)
    view = LiveView(console, clock)
    play(view, mixed, clock, notes={3: "a [note]"})
    view.note("[bold]careful")
    view.finished()
    view.finished()
    assert "trial 3: a [note]" in text_of(console)
    assert "[bold]careful" in text_of(console)
    assert REDRAWS_PER_S <= 4


def test_live_view_before_any_trial(clock):
    console = console_of(80)
    view = LiveView(console, clock)
    play_state(view, [], clock)
    console.print(view.render())
    assert "0/24 trials" in text_of(console)
    assert "about 10 min left" in text_of(console)


def test_time_left_is_by_the_mean_of_the_trials_so_far(clock):
    state = Progress(clock)
    state.begin([], 10, None)
    assert state.left_s() is None
    for number in (0, 1):
        state.trial_started(number, "", {"batch_size": 64}, {})
        clock.now += 6.5
        state.trial_ended(ok(number))
    assert state.left_s() == pytest.approx(8 * 6.5)
    state.trial_started(2, "", {"batch_size": 64}, {})
    clock.now += 2.5
    assert state.left_s() == pytest.approx(8 * 6.5 - 2.5)
    clock.now += 1000
    assert state.left_s() == pytest.approx(7 * 6.5)


def test_time_left_knows_that_disturbed_trials_are_measured_twice(clock):
    state = Progress(clock)
    state.begin([], 10, None)
    for number in range(4):
        state.trial_started(number, "", {"batch_size": 64}, {})
        clock.now += 6.5
        state.trial_ended(ok(number, kind="repeat" if number % 2 else "trial"))
    assert state.done == 2
    assert state.left_s() == pytest.approx(8 * 13)


def test_time_left_never_exceeds_the_time_limit(clock):
    state = Progress(clock)
    state.begin([], 100, 20.0)
    state.trial_ended(ok(0))
    clock.now = 15.0
    assert state.left_s() == pytest.approx(5.0)


def test_replicates_count_once_among_the_best(clock):
    state = Progress(clock)
    state.begin([], 3, None)
    state.trial_ended(ok(0, sample_s=0.001))
    state.trial_ended(ok(1, sample_s=0.004))
    (row,) = state.best
    assert (row.runs, row.sample_s) == (2, pytest.approx(0.002))
