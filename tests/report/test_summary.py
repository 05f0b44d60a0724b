"""The end of a search."""

from __future__ import annotations

import html
import re
from dataclasses import replace

import pytest
from rich.cells import cell_len

from autotune.config import Config
from autotune.numerics import Numerics, Status
from autotune.records import Outcome, Source, TrialRecord
from autotune.report.evidence import gather
from autotune.report.html.page import page
from autotune.report.parts import parts_text, time_parts
from autotune.report.summary import print_summary
from autotune.search.verification import Verification, sentence
from tests.report.factory import GIB, console_of, failed, make_measurement, ok, text_of
from tests.report.html.conftest import verified_run
from tests.report.test_table import CLAIM


def shown(run, width=100, **options):
    console = console_of(width)
    print_summary(console, gather(run), **options)
    return text_of(console)


def squeezed(text):
    return re.sub(r"\s+", " ", text)


@pytest.fixture
def verified(tmp_path):
    return verified_run(tmp_path / "run")


def emitted(run, options, lines=()):
    """Write best.toml as a search without a verification does."""
    told = ", ".join(f'"{line}"' for line in lines)
    run.folder.best.write_text(f"[options]\n{options}\n[measured]\n[notes]\nlines = [{told}]\n")
    return run


def test_unverified_makes_no_claim(save, mixed):
    run = save(mixed)
    text = shown(run)
    assert squeezed(text).startswith(f"Not verified: run `autotune verify {run.folder.path}`")
    assert not CLAIM.search(text)
    assert "Screening, single run each, repeats averaged, not comparable across rows within ±2.8 %" in squeezed(text)
    assert "what it alone gave" not in text


def test_a_search_from_python_says_what_proves_it_there(save, mixed):
    run = save(mixed, source=Source(pickle="/tmp/workload.pickle"))
    how = f'autotune.tune(workload, ..., out="{run.folder.path}", verify="full", resume=True)'
    for text in (squeezed(shown(run)), html.unescape(page(gather(run)))):
        assert how in text
        assert "autotune verify" not in text
        assert "autotune search" not in text


def test_the_verdict_comes_first(verified):
    told = sentence(Verification.load(verified.folder.verification).best)
    text = squeezed(shown(verified))
    assert text.startswith(told)
    assert "Not verified" not in text
    assert "Screening" not in text


def test_before_and_after(save, mixed):
    text = squeezed(shown(save(mixed)))
    assert "batch_size 64 128 precision fp32 bf16 num_workers 0 4" in text
    assert "samples/s 980 1920 from the search alone, not verified" in text
    assert "ms a step 65 67 at batch 64, then 128" in text
    assert "peak host memory 1.00 GiB 1.00 GiB 12 % of the 8.00 GiB allowed" in text


def test_figures_of_a_verified_config_are_those_of_its_windows(verified):
    claim = Verification.load(verified.folder.verification).best
    text = squeezed(shown(verified))
    after = 1 / claim.figures.candidate_sample_s
    found = re.search(r"samples/s (\d+) (\d+) mean of (\d+) fresh processes each", text)
    assert float(found[2]) == pytest.approx(after, rel=0.02)
    assert int(found[3]) == claim.comparison.pairs


def test_the_peak_of_a_verified_config_is_the_largest_of_its_windows_too(verified):
    found = Verification.load(verified.folder.verification)
    windows = [replace(item, peak_bytes=2 * GIB if item.arm == "candidate" else 0) for item in found.best.windows]
    replace(found, best=replace(found.best, windows=tuple(windows))).save(verified.folder.verification)
    assert "peak host memory 1.00 GiB 2.00 GiB 25 % of the 8.00 GiB allowed" in squeezed(shown(verified))


def test_where_the_time_goes_now(save, mixed):
    assert "The time now goes to " in squeezed(shown(save(mixed)))


@pytest.mark.parametrize(("workers", "cause"), [(0, "disturbance"), (2, "compute slowed by the loader")])
def test_without_workers_nothing_is_slowed_by_the_loader(workers, cause):
    """What is left over then is a disturbance, as the doctor calls it."""
    found = make_measurement(sample_s=0.001, batch=100, wait_s=0.0, compute_s=0.068)
    parts = time_parts([found], Config(batch_size=100, num_workers=workers))
    assert parts_text(parts) == f"compute 68 %, {cause} 32 %"


def test_signs_that_an_unverified_best_cannot_be_trusted_are_told(save):
    flags = ("noisy", "cpu_contended_hard")
    text = squeezed(shown(save([ok(0), ok(1, {"precision": "bf16"}, sample_s=0.0005, flags=flags)])))
    assert "Mind: other programs kept it waiting for a core" in text
    assert "scatter" not in text  # show has the rest


def test_commands_can_be_copied_whole(tmp_path, mixed):
    from tests.report.conftest import write_run

    run = write_run(tmp_path / ("long " * 20), mixed)
    text = shown(run, 60)
    assert f'tuned = autotune.Tuned(autotune.Config.load("{run.folder.best}"))\n' in text
    assert f"autotune results '{run.folder.path}'\n" in text


def test_an_unmodified_script_is_applied_by_a_command(save, mixed):
    text = shown(save(mixed, source=Source(script="/home/me/train.py", unmodified=True)))
    assert "apply    autotune run " in text


def test_notes_are_told_by_their_first_sentence(save, mixed):
    run = emitted(
        save(mixed), "batch_size = 128", ["Batch 64 -> 128 [x] changes it. Linear scaling (Goyal et al. 2017)."]
    )
    text = squeezed(shown(run))
    assert "Batch 64 -> 128 [x] changes it. Throughput only: " in text
    assert "best.toml says more." in text
    assert "Goyal" not in text


def test_the_guard_speaks_for_configs_with_the_same_maths(save, mixed):
    checked = TrialRecord(
        number=1001,
        kind="numerics",
        config={"batch_size": 128, "precision": "bf16"},
        outcome=Outcome.OK,
        numerics=Numerics(status=Status.PASSED, steps=4),
    )
    run = save([*mixed, checked])
    assert "numerics checked beside the baseline over 4 steps" in squeezed(shown(run))  # of the best, with 4 workers


def test_what_was_not_checked_is_said(save, mixed):
    run = emitted(save(mixed), 'precision = "bf16"')
    run.folder.best.write_text(
        run.folder.best.read_text() + '[numerics]\nstatus = "not checked"\nreason = "no time was left"\n'
    )
    assert "numerics not checked: no time was left" in squeezed(shown(run))


def test_the_best_that_keeps_the_batch_size(verified):
    text = squeezed(shown(verified))
    told = sentence(Verification.load(verified.folder.verification).same_batch)  # no speed-up without its interval
    assert f"Best with the baseline's samples per optimizer step: precision=bf16 {told}: " in text
    assert "best-same-batch.toml" in text


def test_nothing_fits(save):
    text = shown(save([failed(0), failed(1, {"batch_size": 8}), ok(2, {"batch_size": 16}, host=9 << 30)]))
    assert "No config was measured within the limits: 1 over the limit, 2 out of memory." in squeezed(text)
    assert "verify" not in text
    assert "apply" not in text


def test_the_baseline_is_the_best(save):
    run = emitted(save([ok(0), ok(1, {"num_workers": 2}, sample_s=0.01)]), "batch_size = 64")
    text = squeezed(shown(run))
    assert text.startswith("Keep what you run today; nothing was verified.")
    assert "Nothing to change: the baseline is the best config found." in text
    assert "samples/s 1000 from" in text


def test_nothing_but_the_baseline_was_tried(save):
    command = ("autotune", "search", "train.py", "--timeout", "60")
    run = emitted(save([ok(0), ok(1)], command=command, timeout_s=60.0), "batch_size = 64")
    text = squeezed(shown(run))
    assert "Nothing to change: no other config was tried." in text
    assert "best config found" not in text
    assert "go on autotune search train.py --timeout 60 --resume" in text


@pytest.mark.parametrize("asked", [("--trials", "2"), ("--trials=2",)], ids=str)
def test_trials_that_were_used_up_by_the_baseline_are_asked_for_again(asked, save):
    command = ("autotune", "search", "train.py", *asked, "--seed", "3", "--", "--trials", "9")
    run = emitted(save([ok(0), ok(1)], command=command, trials=2), "batch_size = 64")
    told = "go on    autotune search train.py --seed 3 --trials 24 --resume -- --trials 9\n"
    assert told in shown(run, 200)
    assert "--trials 2 " not in shown(run, 200)


@pytest.mark.parametrize(
    "info",
    [{"trials": 2, "choices": {"batch_size": [64]}}, {"trials": 24}],
    ids=["nothing to choose from", "nothing left"],
)
def test_no_command_goes_on_where_nothing_is_left_to_do(info, save):
    command = ("autotune", "search", "train.py")
    assert "go on" not in shown(emitted(save([ok(0), ok(1)], command=command, **info), "batch_size = 64"))


def test_no_other_config_was_measured(save):
    run = emitted(
        save([ok(0), failed(1, {"batch_size": 128}), ok(2, {"batch_size": 96}, host=9 << 30)]), "batch_size = 64"
    )
    told = "no other config was measured within the limits (1 over the limit, 1 out of memory)"
    assert f"Nothing to change: {told}." in squeezed(shown(run))


def test_what_was_faster_and_failed_when_it_was_looked_at_again(save):
    failed_check = TrialRecord(
        number=1000,
        kind="numerics",
        config={"batch_size": 64, "precision": "bf16"},
        outcome=Outcome.OK,
        numerics=Numerics(status=Status.FAILED, reason="the gradient points elsewhere"),
    )
    records = [ok(0), ok(1, {"precision": "bf16"}, sample_s=1e-4), failed_check]
    text = squeezed(shown(emitted(save(records), "batch_size = 64")))
    assert "Nothing to change: what was faster in the search failed when it was looked at again: " in text
    assert "the gradient points elsewhere" in text
    assert "best config found" not in text


def test_where_memory_is_to_be_small_a_faster_config_does_not_beat_the_baseline(save):
    records = [ok(0), ok(1, {"batch_size": 128}, sample_s=1e-4, host=2 << 30)]
    text = squeezed(shown(emitted(save(records, objective="memory"), "batch_size = 64")))
    assert "Nothing to change: the baseline is the best config found." in text


def test_a_search_for_little_memory_says_what_it_saved(tmp_path):
    run = verified_run(tmp_path / "run", objective="memory")
    assert re.match(r"Peak memory .* in the place of .*; ", squeezed(shown(run)))


def test_where_time_and_memory_count_alike_the_front_is_there_to_choose_from(save):
    records = [ok(0), ok(1, {"batch_size": 8}, sample_s=0.01, host=1 << 20), ok(2, {"batch_size": 16}, sample_s=0.02)]
    text = squeezed(shown(emitted(save(records, objective="pareto"), "batch_size = 64")))
    front = text[text.index("To choose from") :]
    assert "batch_size=8" in front
    assert "batch_size=16" not in front
    assert "--pareto" in front


def test_an_interrupted_search_says_so_and_how_to_go_on(save, mixed):
    command = ("/usr/bin/autotune", "search", "train.py", "--force", "--", "--data", "my data")
    text = shown(save(mixed, command=command), interrupted=True)
    assert text.startswith("Interrupted after 8 of 24 trials")
    assert "go on    autotune search train.py --resume -- --data 'my data'\n" in text


@pytest.mark.parametrize("width", [60, 80, 160])
def test_lines_fit(verified, width):
    lines = shown(verified, width).splitlines()
    assert all(cell_len(line) <= width for line in lines if str(verified.folder.path) not in line)
    assert len(lines) <= 40
