"""The emitted file: what it says of the changes, and which values it must name."""

from __future__ import annotations

import dataclasses

from autotune.config import Config
from autotune.search.emit import consequences, options_to_write
from tests.search.simulated import FACTS


def test_c56_what_a_changed_batch_size_and_precision_mean() -> None:
    batch, precision = consequences(Config(batch_size=256, precision="bf16"), Config(batch_size=64), FACTS)
    assert "linear scaling (Goyal et al. 2017) multiplies it by 4" in batch
    assert "divide its steps by 4" in batch
    assert "fp32 -> bf16" in precision


def test_nothing_is_said_where_training_stays_the_same() -> None:
    assert list(consequences(Config(batch_size=64, num_workers=2), Config(batch_size=64), FACTS)) == []


def test_c49_workers_that_would_repeat_random_numbers_are_named() -> None:
    facts = dataclasses.replace(FACTS, seeded_generators=("rng",))
    assert "rng" in next(consequences(Config(batch_size=64, num_workers=2), Config(batch_size=64), facts))
    assert list(consequences(Config(batch_size=64), Config(batch_size=64), facts)) == []


def test_defaults_are_written_only_where_the_script_says_otherwise() -> None:
    config = Config(batch_size=64, num_workers=0, precision="fp32", channels_last=True)
    assert options_to_write(config, Config(batch_size=64)) == {"batch_size": 64, "channels_last": True}
    today = Config(batch_size=64, num_workers=4)
    assert options_to_write(config, today) == {"batch_size": 64, "num_workers": 0, "channels_last": True}


def test_c56_accumulation_is_explained_and_warned_about() -> None:
    today, config = Config(batch_size=64), Config(batch_size=64, accumulation=4)
    changed, loop = consequences(config, today, FACTS)
    assert changed.startswith("Batch size x accumulation 64 x 1 -> 64 x 4 changes the samples")
    assert "multiplies it by 4" in changed
    assert "4 batches of 64 make one optimizer step of 256 samples" in loop
    risky = dataclasses.replace(FACTS, batchnorm=True, loss_reduction="sum")
    text = " ".join(consequences(config, today, risky))
    assert "BatchNorm takes its statistics from each batch" in text
    assert "sums over the samples" in text
    text = " ".join(consequences(config, today, dataclasses.replace(FACTS, loss_reduction="other")))
    assert "no mean over samples" in text


def test_a_batch_that_is_split_changes_no_samples_per_step() -> None:
    (loop,) = consequences(Config(batch_size=16, accumulation=4), Config(batch_size=64), FACTS)
    assert loop.startswith("4 batches of 16 make one optimizer step of 64 samples")
    assert list(consequences(Config(batch_size=16, accumulation=4), Config(batch_size=16, accumulation=4), FACTS)) == []


def test_samples_left_out_or_kept_are_named() -> None:
    today = Config(batch_size=64)
    (dropped,) = consequences(Config(batch_size=64, drop_last=True), today, FACTS)
    assert dropped.startswith("drop_last leaves out the last 16 of the 2000 samples of every epoch (0.008 of them)")
    facts = dataclasses.replace(FACTS, cache_sample_bytes=1 << 20)
    (kept,) = consequences(Config(batch_size=64, cache_dataset=True), today, facts)
    assert kept.startswith("cache_dataset keeps all 2000 samples in host memory, 2,000 MiB")
    assert list(consequences(today.replace(drop_last=True), today.replace(drop_last=True), FACTS)) == []
