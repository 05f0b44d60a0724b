"""The memory line: two batches fix it, out-of-memory trials bound it."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from autotune.config import Config
from autotune.options.space import Space, make_space
from autotune.records import Outcome
from autotune.search.model.belief import Belief
from autotune.search.model.encoding import Encoding
from autotune.search.model.memory import MemoryModel, Peak
from autotune.search.observation import Observation
from tests.search.conftest import accelerator_context

MIB = 1 << 20


def learn(space: Space, *seen: tuple[Config, float, bool]) -> tuple[Encoding, MemoryModel]:
    encoding = Encoding(space)
    rows = encoding.rows([config for config, _, _ in seen])
    peaks = [
        Peak(row=index, batch=float(config["batch_size"]), peak_bytes=peak, censored=censored)
        for index, (config, peak, censored) in enumerate(seen)
    ]
    return encoding, MemoryModel(encoding, rows, peaks)


def test_two_batches_tell_the_line(space: Space) -> None:
    base = space.baseline
    encoding, model = learn(space, (base, 4_000, False), (base.replace(batch_size=96), 8_000, False))
    mean, _ = model.predict(encoding.rows([base.replace(batch_size=64), base.replace(batch_size=192)]))
    np.testing.assert_allclose(np.exp(mean), [6_000, 14_000], rtol=0.06)


def test_two_batches_of_one_trial_tell_it_too(space: Space) -> None:
    encoding = Encoding(space)
    rows = encoding.rows([space.baseline])
    peaks = [Peak(row=0, batch=32, peak_bytes=4_000), Peak(row=0, batch=8, peak_bytes=2_500)]
    mean, _ = MemoryModel(encoding, rows, peaks).predict(encoding.rows([space.baseline.replace(batch_size=64)]))
    assert np.exp(mean[0]) == pytest.approx(6_000, rel=0.06)


def test_running_out_of_memory_raises_what_is_expected_of_others(space: Space) -> None:
    base = space.baseline
    seen = (base, 4_000.0, False)
    encoding, before = learn(space, seen)
    _, after = learn(space, seen, (base.replace(batch_size=96), 9_000.0, True))
    rows = encoding.rows([base.replace(batch_size=size) for size in (64, 96, 128)])
    assert (after.predict(rows)[0] > before.predict(rows)[0]).all()
    assert after.fits(rows, 9_000)[1] < 0.3 < before.fits(rows, 9_000)[1]


def test_more_samples_never_need_less(space: Space) -> None:
    base = space.baseline
    encoding, model = learn(space, (base, 4_000, False), (base.replace(batch_size=256), 4_200, False))
    sizes = [base.replace(batch_size=size) for size in (8, 32, 64, 128, 256)]
    mean, _ = model.predict(encoding.rows(sizes))
    assert (np.diff(mean) >= 0).all()
    assert (np.diff(model.fits(encoding.rows(sizes), 4_100)) <= 0).all()


def test_an_options_factor_is_learned(space: Space) -> None:
    base, half = space.baseline, space.baseline.replace(precision="bf16")
    large = {"batch_size": 128}
    encoding, model = learn(
        space,
        (base, 4_000, False),
        (base.replace(**large), 13_000, False),
        (half.replace(**large), 7_000, False),
    )
    mean, _ = model.predict(encoding.rows([half]))
    assert np.exp(mean[0]) == pytest.approx(2_500, rel=0.12)


def test_a_chance_stays_a_chance_after_many_failures(space: Space) -> None:
    base = space.baseline
    lost = [(base.replace(batch_size=size), 3_000.0, True) for size in (64, 96, 128, 192, 256)]
    encoding, model = learn(space, *lost)
    chance = model.fits(encoding.rows([base, base.replace(batch_size=256)]), 3_000)
    assert np.isfinite(chance).all()
    assert chance[0] > chance[1]


# ---- on a host ----


def host_space() -> Space:
    """A training on a CPU whose baseline has loader workers."""
    context = accelerator_context(cores=2, num_workers=2)
    facts = dataclasses.replace(context.facts, device="cpu", compile_refused=None)
    return make_space(dataclasses.replace(context, facts=facts))


def believe(space: Space, *seen: Observation) -> Belief:
    return Belief(space, seen, beside=[Config(batch_size=1024)])


def host(config: Config, peak_mib: float, small_mib: float | None = None) -> Observation:
    small = {} if small_mib is None else {"small_batch": 8, "small_peak_bytes": round(small_mib * MIB)}
    return Observation(config=config, outcome=Outcome.OK, sample_s=1e-3, peak_bytes=round(peak_mib * MIB), **small)


def predicted_mib(belief: Belief, config: Config) -> float:
    assert belief.memory is not None
    mean, _ = belief.memory.predict(belief.encoding.rows([config]))
    return float(np.exp(mean[0]) / MIB)


def test_a_small_peak_has_no_workers_in_it() -> None:
    """Else the workers' memory would count as the batch's, and large batches seem not to fit."""
    space = host_space()
    bare = space.canonical(space.baseline.replace(num_workers=0))
    # 344 MiB by itself, 70 of workers, 0.5 a sample
    belief = believe(space, host(space.baseline, 430, small_mib=348), host(bare, 360))
    assert predicted_mib(belief, space.baseline.replace(batch_size=256)) == pytest.approx(542, rel=0.1)
    assert predicted_mib(belief, bare.replace(batch_size=256)) == pytest.approx(472, rel=0.15)


def test_what_the_compiler_adds_is_reckoned_with_before_it_was_tried() -> None:
    space = host_space()
    belief = believe(space, host(space.baseline, 430), host(space.baseline, 431))
    compiled = space.baseline.replace(compile_mode="default")
    more = predicted_mib(belief, compiled) - predicted_mib(belief, space.baseline)
    assert 60 < more < 160


def test_of_a_large_training_the_compiler_is_a_small_part() -> None:
    space = host_space()
    belief = believe(space, host(space.baseline, 8_000), host(space.baseline, 8_010))
    compiled = space.canonical(space.baseline.replace(compile_mode="default"))
    assert predicted_mib(belief, compiled) == pytest.approx(predicted_mib(belief, space.baseline), rel=0.05)


def test_an_accelerators_memory_holds_neither_workers_nor_the_compiler(space: Space) -> None:
    seen = [host(space.baseline, 430), host(space.baseline, 431)]
    belief = Belief(space, seen)
    loaded = space.canonical(space.baseline.replace(num_workers=4))
    assert predicted_mib(belief, loaded) == pytest.approx(predicted_mib(belief, space.baseline), rel=0.01)
