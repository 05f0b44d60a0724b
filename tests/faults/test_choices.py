"""What a search chooses where a naive one is fooled: against a make-believe workload whose truth is known."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from autotune.documents import read_record
from autotune.records import Outcome, Peaks, Source, TrialRecord
from autotune.search.run import Result, search_workload
from autotune.search.setup import Wishes, prepare
from autotune.trials.ending import with_device_view
from autotune.trials.folder import RunFolder
from tests.search.simulated import FACTS, MIB, Listener, SimulatedRunner, measurement

GIB = 1 << 30
Search = Callable[..., Result]


@pytest.fixture
def search(tmp_path: Path) -> Search:
    (tmp_path / "train.py").write_text("x = 1\n")

    def run(runner: SimulatedRunner, verify: str = "none", **options: Any) -> Result:
        wishes = Wishes(**{"trials": 12, "host_memory_limit_bytes": GIB, "headroom": 0.0, **options})
        source, folder = Source(script=str(tmp_path / "train.py")), RunFolder(tmp_path / "run")
        return search_workload(source, folder, wishes, Listener(), verify=verify, runner=runner, force=True)

    return run


def by_batch(seconds: Mapping[int, float]) -> Callable[[Mapping[str, Any]], float]:
    """Return a truth that only the batch size moves: seconds a sample."""
    return lambda config: 1e-3 * seconds[config["batch_size"]]


def test_b6_c03_what_is_returned_was_run(search: Search) -> None:
    """No figure of a config that was only believed: not the next size, nor twice the last."""
    runner = SimulatedRunner(host_bytes=lambda config: config["batch_size"] * 7 * MIB)
    result = search(runner)
    assert result.best is not None
    records = [read_record(result.folder.record(spec.number)) for spec in runner.asked if spec.kind != "numerics"]
    ran = [record.config for record in records if record.outcome is Outcome.OK]
    assert dict(result.best.items()) in ran


@pytest.mark.parametrize("sampler", ["structured", "random"])
def test_c03_the_largest_size_that_runs_and_never_one_that_does_not(search: Search, sampler: str) -> None:
    """Everything over 40 runs out of memory, and larger is always faster: 40, and not 48."""
    runner = SimulatedRunner(
        seconds=lambda config: 1e-3 * (0.5 + 8 / config["batch_size"]),
        rule=lambda spec: Outcome.OUT_OF_MEMORY if spec.config["batch_size"] > 40 else None,
        noise=0.0,
    )
    sizes = [8, 16, 24, 32, 40, 48, 56, 64]
    others = ["precision", "num_workers", "channels_last", "num_threads"]
    result = search(runner, sampler=sampler, trials=16, restricted={"batch_size": sizes}, excluded=others)
    assert result.best is not None
    assert result.best["batch_size"] == 40


def test_b13_a_slower_size_between_faster_ones_does_not_end_the_search(search: Search) -> None:
    """64 is slower than 32, and 128 is the fastest."""
    truth = {16: 1.3, 32: 1.0, 64: 1.4, 128: 0.6}
    others = ["precision", "num_workers", "channels_last", "num_threads"]
    runner = SimulatedRunner(seconds=by_batch(truth), noise=0.0)
    result = search(runner, restricted={"batch_size": list(truth)}, excluded=others)
    assert result.best is not None
    assert result.best["batch_size"] == 128


@pytest.mark.parametrize("verify", ["none", "quick", "full"])
@pytest.mark.parametrize(("objective", "batch_size"), [("throughput", 64), ("latency", 32), ("memory", 32)])
def test_d6_the_objective_decides_between_quick_steps_and_quick_samples(
    search: Search, objective: str, batch_size: int, verify: str
) -> None:
    """The larger batch has the longer step and the shorter time for a sample."""
    truth = {32: 1.0, 64: 0.9}
    others = ["precision", "num_workers", "channels_last", "num_threads"]
    runner = SimulatedRunner(seconds=by_batch(truth), noise=0.0)
    restricted = {"batch_size": list(truth)}
    result = search(runner, verify, objective=objective, keep=0.8, restricted=restricted, excluded=others)
    assert result.best is not None
    assert result.best["batch_size"] == batch_size


@pytest.mark.parametrize("verify", ["none", "quick", "full"])
@pytest.mark.parametrize(
    ("truth", "batch_size"),
    [
        ({8: 1.3, 16: 1.03, 32: 1.0, 64: 0.99}, 16),  # a little slower than the baseline, in less memory
        ({8: 1.3, 16: 1.0, 32: 1.0, 64: 0.99}, 16),  # no slower
        ({8: 1.1, 16: 1.2, 32: 1.5, 64: 1.0}, 64),  # the baseline is too slow, as all smaller ones are
        ({8: 1.3, 16: 1.2, 32: 1.0, 64: 0.99}, 32),  # what is smaller is too slow: the baseline stays
    ],
)
def test_the_smallest_config_that_is_fast_enough(
    search: Search, truth: dict[int, float], batch_size: int, verify: str
) -> None:
    """Memory is to be small, and 95 % of the best throughput is enough."""
    others = ["precision", "num_workers", "channels_last", "num_threads"]
    restricted = {"batch_size": list(truth)}
    runner = SimulatedRunner(seconds=by_batch(truth), noise=0.0)
    result = search(runner, verify, objective="memory", restricted=restricted, excluded=others)
    assert result.best is not None
    assert result.best["batch_size"] == batch_size


def test_e1_channels_last_that_is_slower_is_measured_and_not_chosen(search: Search) -> None:
    """Grouped convolutions exist that take 35 times as long."""
    runner = SimulatedRunner(seconds=lambda config: 1e-3 * (35 if config["channels_last"] else 1))
    result = search(runner)
    assert any(config["channels_last"] for config in runner.configs)
    assert result.best is not None
    assert result.best["channels_last"] is False


def test_c09_workers_that_cost_more_than_they_give_are_not_chosen(search: Search) -> None:
    """Samples that lie in memory: each worker only costs."""
    facts = dataclasses.replace(FACTS, sample_load_s=1e-6)
    runner = SimulatedRunner(facts=facts, seconds=lambda config: 1e-3 * (1 + 0.5 * config.get("num_workers", 0)))
    result = search(runner, baseline={"num_workers": 2})
    assert result.best is not None
    assert result.best["num_workers"] == 0


# ---- the accelerator's memory, as the driver sees it ----


def test_a11_memory_outside_the_allocator_counts_against_the_limit() -> None:
    """Context, libraries' workspaces, graphs: what the driver counts beyond what the allocator holds."""
    found = dataclasses.replace(
        measurement({"batch_size": 8}, 1e-3, MIB),
        lifetime=Peaks(allocated=2 * GIB, reserved=3 * GIB),
        small_batch=2,
        small_peak=Peaks(reserved=GIB),
    )
    record = TrialRecord(number=1, config={"batch_size": 8}, outcome=Outcome.OK, measurement=found)
    seen = with_device_view(record, {"process_bytes": 5 * GIB})
    assert seen.measurement is not None
    assert seen.measurement.lifetime.outside_torch == 2 * GIB
    assert seen.measurement.lifetime.needed(True) == 5 * GIB
    assert seen.measurement.small_peak is not None
    assert seen.measurement.small_peak.needed(True) == 3 * GIB  # what does not grow with the batch is in both
    assert with_device_view(record, {}) == record


@pytest.mark.parametrize(
    ("device", "free", "asked", "limit"),
    [
        ("cuda:0", 6 * GIB, None, int(0.9 * 6 * GIB)),
        ("cuda:0", 6 * GIB, 4 * GIB, 4 * GIB),
        ("xpu:0", None, 4 * GIB, 4 * GIB),  # which does not tell what is free
        ("xpu:0", None, None, None),
    ],
)
def test_a12_the_limit_is_of_what_is_free_and_not_of_what_there_is(
    tmp_path: Path, device: str, free: int | None, asked: int | None, limit: int | None
) -> None:
    """Of 16 GiB another process holds ten."""
    facts = dataclasses.replace(
        FACTS, device=device, device_memory_bytes=16 * GIB, device_free_bytes=free, native_fp16=True
    )
    (tmp_path / "train.py").write_text("x = 1\n")
    folder = RunFolder(tmp_path / "run")
    folder.create()
    wishes = Wishes(headroom=0.0, memory_limit_bytes=asked)
    prepared = prepare(Source(script=str(tmp_path / "train.py")), wishes, SimulatedRunner(facts=facts), folder)
    assert prepared.limits.device_bytes == limit
