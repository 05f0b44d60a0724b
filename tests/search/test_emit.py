"""The emitted file: what it says of the changes, and which values it must name."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autotune.config import Config, read_document
from autotune.exporting import Export
from autotune.facts import ScriptFacts
from autotune.machine import Gpu, Machine
from autotune.records import Source
from autotune.search.emit import consequences, emit, options_to_write
from autotune.search.measured import Measured
from autotune.search.setup import Prepared, Wishes, prepare
from autotune.trials.folder import RunFolder
from tests.search.simulated import FACTS, SimulatedRunner

CONTROLS = "".join(map(chr, range(1, 160)))


@pytest.fixture
def prepared(tmp_path: Path) -> Callable[..., Prepared]:
    """Prepare the make-believe workload; arguments are fields of its source."""

    def make(device: str = "cpu", **source: Any) -> Prepared:
        folder, runner = RunFolder(tmp_path / "run"), SimulatedRunner(facts=dataclasses.replace(FACTS, device=device))
        folder.create()
        return prepare(Source(script=str(tmp_path / "train.py"), **source), Wishes(), runner, folder)

    return make


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


def test_workers_that_persist_keep_the_dataset_as_it_was() -> None:
    today, config = Config(batch_size=64, num_workers=2), Config(batch_size=64, num_workers=2, persistent_workers=True)
    (note,) = consequences(config, today, FACTS)
    assert "keeps the dataset as it was at the first epoch" in note
    assert list(consequences(config, config, FACTS)) == []


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


def test_what_cuda_graphs_overwrite_is_said() -> None:
    today = Config(batch_size=64)
    _, overwritten = consequences(today.replace(compile_mode="reduce-overhead"), today, FACTS)
    assert "the model's next call overwrites what the last one returned" in overwritten
    assert len(list(consequences(today.replace(compile_mode="default"), today, FACTS))) == 1


def test_the_scaler_of_a_script_is_its_own_to_save() -> None:
    today = Config(batch_size=64)
    half = today.replace(precision="fp16")
    assert "tuned.state_dict()" in " ".join(consequences(half, today, FACTS))
    alone = dataclasses.replace(FACTS, script=ScriptFacts())
    assert "tuned." not in " ".join(consequences(half.replace(drop_last=True), today, alone))


def test_samples_left_out_or_kept_are_named() -> None:
    today = Config(batch_size=64)
    dropped, elsewhere = consequences(Config(batch_size=64, drop_last=True), today, FACTS)
    assert dropped.startswith("drop_last leaves out the last 16 of the 2000 samples of every epoch (0.008 of them)")
    assert "tuned.loader() leaves out the rest of other data, too" in elsewhere
    facts = dataclasses.replace(FACTS, cache_sample_bytes=1 << 20)
    (kept,) = consequences(Config(batch_size=64, cache_dataset=True), today, facts)
    assert kept.startswith("cache_dataset keeps all 2000 samples in host memory, 2,000 MiB")
    assert list(consequences(today.replace(drop_last=True), today.replace(drop_last=True), FACTS)) == []


@pytest.mark.parametrize("text", ["two\nlines", '"\n[options]\nbatch_size = 7\n', "one\r\ntwo", "tab\there", CONTROLS])
@pytest.mark.parametrize("unmodified", [False, True])
def test_no_text_leaves_a_comment_or_damages_it(
    text: str, unmodified: bool, prepared: Callable[..., Prepared], tmp_path: Path
) -> None:
    found = prepared(unmodified=unmodified, arguments=("--name", text))
    baseline, path = Measured(found.space.baseline), tmp_path / "be\nst.toml"
    emit(path, baseline, baseline, found, gains={"batch_size": f"gives {text}"})
    document = read_document(path)
    assert document["options"] == {"batch_size": 32}
    assert document["workload"]["arguments"] == ["--name", text]


@pytest.mark.parametrize("device", ["cpu", "cuda:0"])
def test_the_device_is_known_whatever_else_the_machine_has(
    device: str, prepared: Callable[..., Prepared], tmp_path: Path
) -> None:
    found, path = prepared(device), tmp_path / "best.toml"
    baseline = Measured(found.space.baseline)
    emit(path, baseline, baseline, found)
    assert Export.read(path).on_cpu is (device == "cpu")


@pytest.mark.parametrize("device", ["cpu", "cuda:0", "cuda:1"])
def test_a_device_that_was_named_stays_the_files_own(
    device: str, prepared: Callable[..., Prepared], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    card = Gpu(index=0, name="simulated", total_bytes=1, free_bytes=1, driver="570", processes=0)
    here = dataclasses.replace(Machine.read(), gpus=(card, dataclasses.replace(card, index=1)))
    monkeypatch.setattr(Machine, "read", lambda: here)
    found, path = prepared(device), tmp_path / "best.toml"
    baseline = Measured(found.space.baseline)
    emit(path, baseline, baseline, found)
    assert read_document(path)["machine"]["device"] == (here.cpu if device == "cpu" else "simulated")
    assert (f', device="{device}")' in path.read_text()) is (device != "cuda:0")
    Config.load(path)  # which warns of nothing
