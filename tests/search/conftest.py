"""Spaces and a make-believe workload for tests of the search: no device, no sleeping."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from autotune.config import Config
from autotune.facts import Facts
from autotune.options import OPTIONS
from autotune.options.base import Context, Value
from autotune.options.space import Space, make_space
from autotune.records import Outcome
from autotune.search.observation import Observation

LIMIT_BYTES = 8_000
SEARCHED = (
    *("batch_size", "precision", "num_workers", "prefetch_factor", "persistent_workers", "pin_memory"),
    *("channels_last", "checkpoint_segments", "cudnn_benchmark", "num_threads"),
)
"""options of the make-believe workload: what these tests count must not grow with the registry"""
OTHERS = [name for name in OPTIONS if name not in SEARCHED]


def accelerator_context(cores: float = 8.0, **baseline: Value) -> Context:
    facts = Facts(
        device="cuda:0",
        device_name="simulated",
        native_bf16=True,
        native_fp16=True,
        convolution_ranks=(4,),
        chain_length=12,
        chain_kind="blocks",
        sample_load_s=2e-3,
        sample_compute_s=1e-3,
    )
    machine: Any = SimpleNamespace(usable_cores=cores)
    return Context(facts=facts, machine=machine, baseline={"batch_size": 32} | baseline, max_batch=256)


def observe(config: Config) -> Observation:
    """Return what a noise-free trial of a make-believe workload shows."""
    batch = int(config.value("batch_size"))
    half = config.value("precision") != "fp32"
    kept = 1 - 0.06 * int(config.value("checkpoint_segments"))
    compute = 1e-3 * (0.7 + 9.6 / batch) * (0.7 if half else 1.0) * (1.3 - 0.3 * kept)
    workers = int(config.value("num_workers"))
    loader = 2e-3 / max(workers, 1)
    peak = round(1_000 + 40 * batch * (0.6 if half else 1.0) * kept)
    if peak > LIMIT_BYTES:
        return Observation(config=config, outcome=Outcome.OUT_OF_MEMORY, limit_bytes=LIMIT_BYTES, cost_s=5.0)
    return Observation(
        config=config,
        outcome=Outcome.OK,
        sample_s=max(compute, loader) if workers else compute + loader,
        compute_s=compute,
        loader_s=loader,
        contention_s=0.0,
        peak_bytes=peak,
        limit_bytes=LIMIT_BYTES,
        cost_s=10.0,
    )


@pytest.fixture
def space() -> Space:
    """Some 20,000 configs."""
    return make_space(accelerator_context(), excluded=OTHERS)


@pytest.fixture
def small_space() -> Space:
    """24 configs: three batch sizes, two precisions, loading in the process or beside it in three ways."""
    return make_space(
        accelerator_context(),
        restricted={"batch_size": [16, 32, 64], "precision": ["fp32", "bf16"], "num_workers": [0, 4]},
        fixed={"channels_last": False, "checkpoint_segments": 0, "cudnn_benchmark": False, "pin_memory": False},
        excluded=["persistent_workers", *OTHERS],
    )
