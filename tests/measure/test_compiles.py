"""Compiling in the phases of a trial: warm-up outlasts it, the window must not see it, the start contains it."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import pytest
import torch

from autotune.compiling import Compiles, kept
from autotune.errors import Unsupported
from autotune.measure.protocol import Wanted, measure
from autotune.measure.warmup import QUIET_STEPS, warm_up
from tests.measure.measuring import FakeClock, make_workload, open_session

STEP_S, COMPILE_S = 0.1, 10.0


class FakeCompiler:
    """Compiles at some steps, counted from 0; or once for each size of batch."""

    def __init__(self, clock: FakeClock, *, at: Any = (), shapes: bool = False, cached: bool = False) -> None:
        self.clock, self.at, self.shapes, self.cached = clock, set(at), shapes, cached
        self.steps, self.graphs, self.known = 0, 0, set[int]()

    def __call__(self, batch: Any) -> None:
        size = len(batch[0])
        if self.steps in self.at or (self.shapes and size not in self.known):
            self.graphs += 1
            self.clock.sleep(COMPILE_S)
        self.known.add(size)
        self.steps += 1
        self.clock.sleep(STEP_S)

    def so_far(self) -> Compiles:
        return Compiles(self.graphs, COMPILE_S * self.graphs, self.cached)


@pytest.fixture(autouse=True)
def _nothing_compiled_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tests of this process may have compiled."""
    from torch._dynamo import utils

    monkeypatch.setattr(utils, "counters", defaultdict(Counter))
    monkeypatch.setattr(utils, "cumulative_time_spent_ns", defaultdict(float))


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def session_of(compiler: FakeCompiler, length: int = 4096, **parts: Any) -> Any:
    session = open_session(make_workload(compiler, length=length, **parts), clock=compiler.clock)
    session.compiles = compiler.so_far
    return session


def test_d2_warm_up_goes_on_until_no_step_compiles(clock):
    compiler = FakeCompiler(clock, at={0, 4, 9, 12})
    warm_up(session_of(compiler), None)
    assert compiler.steps >= 13 + QUIET_STEPS
    assert compiler.graphs == 4


def test_compiling_is_no_warm_up(clock):
    """The second of compiling must not count as the second of warm-up."""
    compiler = FakeCompiler(clock, at={0, 2})
    session = session_of(compiler)
    warm_up(session, None)
    assert compiler.steps * STEP_S >= session.device.min_warmup_s


def test_a_step_that_always_compiles_ends_its_warm_up_all_the_same(clock):
    compiler = FakeCompiler(clock, at=range(10_000))
    warm_up(session_of(compiler), None)
    assert compiler.steps <= 250


def test_d2_the_ragged_last_batch_is_compiled_before_the_window_and_said(clock):
    """Pitfall 10: 4100 samples in batches of 8 leave one of 4."""
    compiler = FakeCompiler(clock, shapes=True)
    found, _ = measure(session_of(compiler, length=4100), Wanted())
    assert "compiled_last_batch" in found.flags
    assert "recompiled" not in found.flags
    assert found.step_s == pytest.approx(STEP_S)
    assert found.compilation is not None
    assert (found.compilation.graphs, found.compilation.recompilations) == (2, 1)
    assert found.compilation.seconds == pytest.approx(2 * COMPILE_S)


def test_d2_so_is_one_that_a_short_epoch_brings_into_the_warm_up(clock):
    compiler = FakeCompiler(clock, shapes=True)
    found, _ = measure(session_of(compiler, length=36), Wanted())
    assert "compiled_last_batch" in found.flags
    assert "recompiled" not in found.flags


def test_a_last_batch_of_one_sample_is_compiled_before_the_window_too(clock):
    compiler = FakeCompiler(clock, shapes=True)
    measure(session_of(compiler, length=4097), Wanted())
    assert 1 in compiler.known


def test_d2_a_compilation_in_the_window_is_flagged(clock):
    compiler = FakeCompiler(clock, at={0, 18})
    found, _ = measure(session_of(compiler), Wanted())
    assert "recompiled" in found.flags
    assert found.compilation is not None
    assert found.compilation.recompilations == 1


def test_without_a_compiler_nothing_is_said(clock):
    found, _ = measure(session_of(FakeCompiler(clock)), Wanted())
    assert found.compilation is None
    assert not {"recompiled", "compiled_last_batch"} & set(found.flags)


def test_the_start_is_spread_over_what_the_user_plans(clock):
    compiler = FakeCompiler(clock, at={0})
    found, _ = measure(session_of(compiler), Wanted(planned_samples=1000))
    assert found.start_s == pytest.approx(COMPILE_S + STEP_S)
    assert found.steady_sample_s == pytest.approx(STEP_S / 8)
    assert found.sample_s == pytest.approx(STEP_S / 8 + (COMPILE_S + STEP_S) / 1000)


def test_without_a_plan_the_start_changes_nothing(clock):
    found, _ = measure(session_of(FakeCompiler(clock, at={0})), Wanted())
    assert found.sample_s == found.steady_sample_s == pytest.approx(STEP_S / 8)


def test_what_the_cache_spared_counts_as_if_it_had_not(clock):
    compiler = FakeCompiler(clock, at={0}, cached=True)
    found, _ = measure(session_of(compiler), Wanted(planned_samples=1000, known_compile_s=4 * COMPILE_S))
    assert found.start_s == pytest.approx(4 * COMPILE_S + STEP_S)
    assert found.compilation is not None
    assert found.compilation.cached


def test_c20_a_config_that_compiles_nothing_is_unsupported(clock):
    session = session_of(FakeCompiler(clock))
    session.training.tuned._plan.compiles = True
    with pytest.raises(Unsupported, match="found nothing to compile"):
        warm_up(session, None)


def test_losses_of_what_the_script_compiles_itself_are_kept_apart_too() -> None:
    """A CUDA graph returns the same memory at each run."""
    from torch._dynamo import utils

    loss = torch.ones(())
    assert kept(loss).data_ptr() == loss.data_ptr()
    utils.counters["stats"]["unique_graphs"] += 1
    assert kept(loss).data_ptr() != loss.data_ptr()
