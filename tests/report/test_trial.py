"""One trial in full."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from autotune.errors import RunFolderError
from autotune.records import Compilation, Outcome, Peaks
from autotune.report.flags import FLAGS
from autotune.report.trial import PHASES, print_trial
from tests.report.factory import console_of, failed, ok, text_of

TRACEBACK = (
    'Traceback (most recent call last):\n  File "train.py", line 3, in step\n    x[/b] = y[0]  [red]\nIndexError\n'
)


def shown(run, number, width=120):
    console = console_of(width)
    print_trial(console, run, number)
    return text_of(console)


def test_a_measured_trial(save, mixed):
    text = shown(save(mixed), 3)
    for part in (
        "trial 3: ok",
        "differs from the baseline  batch_size=128, precision=bf16, num_workers=4",
        "the baseline has           batch_size=64, precision=fp32, num_workers=0",
        "1920 (±2.0 % within the run)",
        "▁▃▆█▁▃▆█▁▃▆█",
        "12 of 2 steps, the first 2 dropped as warm-up",
        "input-bound: 40 % of the step is data stall (differential)",
        "1.00 GiB of the 8.00 GiB that it may use",
        "2.3 2.1 1.9",
        "0003.log",
    ):
        assert part in text


def test_flags_are_in_words(save, mixed):
    text = shown(save(mixed), 2)
    assert FLAGS["noisy"] in text
    assert FLAGS["cpu_contended"] in text


def test_a_failed_trial_shows_the_users_own_error(save):
    message = "index [0] of [bold]x[/bold]\x1b[31m\nRaise the limit (ulimit -n)."
    record = failed(
        1, outcome=Outcome.ERROR, reason="IndexError", message=message, traceback=TRACEBACK, phase="warm-up"
    )
    text = shown(save([record]), 1)
    assert "trial 1: error" in text
    assert "IndexError (in the phase: warm-up)" in text
    assert "index [0] of [bold]x[/bold]" in text
    assert "Raise the limit" in text
    assert "    x[/b] = y[0]  [red]" in text
    assert "\x1b" not in text
    assert "samples/s" not in text


def test_the_baseline_differs_in_nothing(save, mixed):
    assert "differs from the baseline  in nothing" in shown(save(mixed), 0)


def test_memory_by_kind(save):
    peaks = Peaks(host=1 << 30, allocated=2 << 30, reserved=3 << 30, process=4 << 30, outside_torch=1 << 30)
    run = save(
        [ok(0, lifetime=peaks, steady=Peaks(allocated=1 << 30))], facts={"device": "cuda:0", "device_name": "a card"}
    )
    text = shown(run, 0)
    assert (
        "needed                           4.00 GiB\n" in "\n".join(line.rstrip() for line in text.splitlines()) + "\n"
    )
    assert "2.00 GiB over its life, 1.00 GiB after warm-up" in text
    assert "device, process (sampled)" in text


@pytest.mark.parametrize("width", [60, 80, 160])
def test_lines_fit(save, mixed, width):
    for number in (2, 3):
        lines = shown(save(mixed), number, width).splitlines()
        assert all(cell_len(line) <= width for line in lines if not line.startswith("log: "))


def test_an_unknown_trial(save, mixed):
    with pytest.raises(RunFolderError, match="no trial 99"):
        shown(save(mixed), 99)


def test_every_phase_has_a_word():
    from dataclasses import fields

    from autotune.records import Phases

    assert list(PHASES) == [field.name for field in fields(Phases)]


def test_d2_compiling_is_told_apart(save):
    done = Compilation(seconds=27.5, graphs=2, recompilations=1, cached=True)
    text = shown(save([ok(1, compilation=done, start_s=31.0, planned_samples=6400)]), 1, width=200)
    assert " s for 2 graphs, 1 of them after the first step; a part came from the cache" in text
    assert "31 s until training ran at its pace; in the times, spread over the 6,400 samples planned" in text
    assert "graph" not in shown(save([ok(1)]), 1)
