"""The end of a search."""

from __future__ import annotations

import re

import pytest
from rich.cells import cell_len

from autotune.config import Config
from autotune.report.summary import print_summary
from tests.report.factory import console_of, failed, ok, text_of
from tests.report.test_table import CLAIM


def shown(run, width=100, **options):
    console = console_of(width)
    print_summary(console, run, **options)
    return text_of(console)


def squeezed(text):
    return re.sub(r"\s+", " ", text)


def test_unverified_makes_no_claim(save, mixed):
    run = save(mixed)
    text = shown(run)
    assert squeezed(text).startswith(f"Not verified: run `autotune verify {run.folder.path}`")
    assert not CLAIM.search(text)
    assert "Screening, single run each, repeats averaged, not comparable across rows within ±2.8 %" in squeezed(text)


def test_the_verdict_comes_first(save, mixed):
    verdict = (
        "1.23x faster per sample than your baseline (95 % CI 1.17-1.29, 9 interleaved A/B rounds, fresh processes)"
    )
    text = shown(save(mixed), verdict=verdict)
    assert squeezed(text).startswith(verdict)
    assert "Not verified" not in text
    assert not CLAIM.search(squeezed(text).removeprefix(verdict))


def test_before_and_after(save, mixed):
    text = squeezed(shown(save(mixed)))
    assert "batch_size 64 128 precision fp32 bf16 num_workers 0 4" in text
    assert "samples/s 980 1920" in text
    assert "peak memory 1.00 GiB 1.00 GiB" in text


def test_the_best_can_be_named(save, mixed):
    text = squeezed(shown(save(mixed), best=Config(batch_size=64, precision="bf16")))
    assert "samples/s 980 1400" in text
    assert "Flags of the best config: the times scatter" in text
    assert "Batch size" not in text


def test_commands_can_be_copied_whole(save, mixed, tmp_path):
    path = tmp_path / ("long " * 20) / "best.toml"
    text = shown(save(mixed), 60, path=path, command="python train.py --config best.toml")
    assert f'config = autotune.Config.load("{path}")\n' in text
    assert "python train.py --config best.toml\n" in text
    assert "autotune results " in text


def test_notes_of_the_emitted_config_go_first(save, mixed):
    run = save(mixed)
    run.folder.best.write_text('[options]\nbatch_size = 128\n[notes]\nlines = ["mind the [generator]"]\n')
    text = squeezed(shown(run))
    assert "mind the [generator]" in text
    assert "Goyal" not in text


def test_the_best_that_keeps_the_batch_size(save, mixed):
    config = Config(batch_size=64, precision="bf16")
    text = squeezed(shown(save(mixed), same_batch=config, same_batch_verdict="inconclusive: noise +-9 %"))
    assert "Best with the baseline's samples per optimizer step: precision=bf16 inconclusive: noise +-9 %; " in text
    assert "best-same-batch.toml" in text.replace(" ", "")


def test_nothing_fits(save):
    text = shown(save([failed(0), failed(1, {"batch_size": 8}), ok(2, {"batch_size": 16}, host=9 << 30)]))
    assert "No config was measured within the limits: 1 over the limit, 2 out of memory." in squeezed(text)
    assert "verify" not in text


def test_the_baseline_is_the_best(save):
    text = shown(save([ok(0), ok(1, {"num_workers": 2}, sample_s=0.01)]))
    assert "the baseline is the best config found" in text


@pytest.mark.parametrize("width", [60, 80, 160])
def test_lines_fit(save, mixed, width):
    lines = shown(save(mixed), width).splitlines()
    assert all(cell_len(line) <= width for line in lines if not line.startswith(("apply", "see all")))
