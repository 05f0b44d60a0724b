"""The results table: readable at any width, no claims, and nothing of the user's text acts."""

from __future__ import annotations

import re

import pytest
from rich.cells import cell_len

from autotune.errors import UsageError
from autotune.records import Compilation
from autotune.report.columns import COLUMNS, Column, sort_rows
from autotune.report.flags import FLAGS, letters
from autotune.report.rows import rows_of_run
from autotune.report.selection import Selection
from autotune.report.table import fitting_columns, print_results, results_table
from tests.report.factory import console_of, failed, ok, text_of

CLAIM = re.compile(r"\d\s?[x\u00d7]\b|faster|speed-?up|\bslower\b(?! than the best so far)", re.IGNORECASE)
WIDTHS = (60, 80, 120, 160)


def shown(run, width=160, **options):
    console = console_of(width)
    print_results(console, run, Selection(**options))
    return text_of(console)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("every", [False, True])
def test_nothing_is_wider_than_the_terminal_and_nothing_is_cut(save, mixed, width, every):
    text = shown(save(mixed), width, every=every)
    assert max(cell_len(line) for line in text.splitlines()) <= width
    for word in ("rank", "trial", "differs", "samples/s", "num_workers=4", "1920", "flags", "ac"):
        assert word in text
    assert "…" not in text


@pytest.mark.parametrize("flags", [(), ("noisy",)])
def test_no_number_is_cut_however_narrow_the_terminal_is(save, flags):
    """Cut off, 28000 samples/s would be 2800, and rank 14 rank 1."""
    workers = [{"num_workers": 100 + number, "multiprocessing_context": "spawn"} for number in range(14)]
    run = save([ok(n, workers[n] if n else {}, sample_s=1e-5 * (3 + n / 100), flags=flags) for n in range(14)])
    rows = rows_of_run(run)

    def table(width):
        console = console_of(width)
        widths = fitting_columns(rows, width, flag_letters=letters(flags))
        assert {"rank", "samples_per_s"} <= set(widths)
        console.print(results_table(rows, widths, flag_letters=letters(flags)))
        return text_of(console)

    whole = set(re.findall(r"[\d.]+", table(300)))
    assert {"14", "113"} <= whole
    for width in range(20, 61):
        text = table(width)
        assert max(cell_len(line) for line in text.splitlines()) <= width
        assert set(re.findall(r"[\d.]+", text)) <= whole, text


def test_a_narrow_terminal_drops_the_least_important_columns(save, mixed):
    assert {"step ms", "took s", "data wait %"} <= set(re.split(r"\s{2,}", shown(save(mixed), 160).splitlines()[1]))
    narrow = shown(save(mixed), 80)
    assert "took s" not in narrow
    assert "peak GiB" in narrow


def test_compiling_has_a_column_where_something_was_compiled(save, mixed):
    assert "compile s" not in shown(save(mixed), 160)
    compiled = ok(9, {"compile_mode": "default"}, compilation=Compilation(seconds=31.4, graphs=2))
    assert re.search(r"compile s.*\n(.*\n)*.*compile_mode=default.* 31 ", shown(save([*mixed, compiled]), 160))


def test_no_claim_is_made(save, mixed):
    for width in WIDTHS:
        assert not CLAIM.search(shown(save(mixed), width, every=True))


def test_heading_says_what_the_figures_are_not(save, mixed):
    first = shown(save(mixed)).splitlines()[0]
    assert first == "Screening, single run each, repeats averaged, not comparable across rows within ±2.8 %"


def test_footer_says_where_when_and_what_was_not_measured(save, mixed):
    text = shown(save(mixed))
    assert "train[1].py: A CPU, 8 usable cores, torch 2.13.0, 2027-01-15 08:00 UTC" in text
    assert "Throughput only: a changed batch size or precision may change convergence." in text
    assert "Not measured: loss after training" in text
    assert "stays within 8.00 GiB" in text


def test_flags_are_explained_once(save, mixed):
    text = shown(save([*mixed, ok(9, {"num_workers": 3}, flags=("noisy",))]))
    for flag in ("noisy", "pruned", "cpu_contended"):
        assert text.count(f"{flag}: {FLAGS[flag]}") == 1


def test_the_rest_is_counted_by_outcome(save, mixed):
    run = save(mixed)
    assert "Not shown: 1 out of memory, 1 error (--all shows them)" in shown(run)
    every = shown(run, every=True)
    assert "Not shown" not in every
    assert "out of device memory" in every
    assert every.count("baseline  ") >= 2  # both runs of it


def test_nothing_measured(save):
    text = shown(save([failed(0)]))
    assert "No config was measured." in text
    assert "1 out of memory" in text


def test_a_run_without_trials(save):
    assert "No config was measured." in shown(save([]))


def test_markup_in_a_reason_is_shown_as_it_is(save):
    text = shown(save([ok(0), failed(1, {"num_workers": 2}, reason="bad [/red] [bold]x\x1b[31m")]), every=True)
    assert "bad [/red] [bold]x" in text
    assert "\x1b" not in text


def test_digits_follow_the_uncertainty(save):
    text = shown(save([ok(0, sample_s=1 / 1260.05, uncertainty=0.557)]))
    assert re.search(r"\b1300\b", text)
    assert "1260" not in text


def test_sorting_by_name(save, mixed):
    rows = rows_of_run(save(mixed))
    assert [row.trial for row in sort_rows(rows, "trial")] == [0, 2, 3, 4, 5, 6, 7]
    assert [row.trial for row in sort_rows(rows, "samples_per_s")][:2] == [4, 3]
    assert [row.trial for row in sort_rows(rows, "peak_bytes")][-3:] == [4, 5, 6]  # unknown ones last
    with pytest.raises(UsageError, match="cannot sort by samples_per_sec") as raised:
        sort_rows(rows, "samples_per_sec")
    assert raised.value.hint == "Did you mean samples_per_s?"


@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: column.name)
def test_every_column_sorts_every_row(save, mixed, column):
    assert len(sort_rows(rows_of_run(save(mixed)), column.name)) == 7


def test_a_further_column_changes_no_rank(save, mixed):
    further = Column(name="zzz", title="zzz", cell=lambda row: "z", key=lambda row: -row.trial, importance=99)
    rows = rows_of_run(save(mixed))
    columns = (further, *COLUMNS)
    console = console_of(160)
    widths = fitting_columns(rows, 160, columns=columns, flag_letters={})
    console.print(results_table(rows, widths, columns=columns, flag_letters={}))
    assert "zzz" in text_of(console)
    assert [row.trial for row in sort_rows(rows, "rank", columns)] == [3, 2, 0, 7, 4, 5, 6]


def test_column_names_are_distinct():
    assert len({column.name for column in COLUMNS}) == len(COLUMNS)


def test_no_color_means_no_colour(save, mixed):
    import io

    from rich.console import Console

    console = Console(file=io.StringIO(), width=120, force_terminal=True, _environ={"NO_COLOR": "1", "TERM": "xterm"})
    print_results(console, save(mixed))
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]m", text_of(console))


def test_a_pipe_gets_no_escapes(save, mixed):
    assert "\x1b" not in shown(save(mixed))


def test_times_that_contain_the_start_say_so(save, mixed):
    assert "spread over the 64,000 samples planned" in shown(save(mixed, planned_samples=64_000))
    assert "planned" not in shown(save(mixed))
