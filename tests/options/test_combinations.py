"""Random configs of three small models: each trains as the baseline does, or says why it cannot.

Written over the registry: a new option is in it by existing.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from autotune.config import Config
from autotune.facts import Facts
from autotune.machine import Machine
from autotune.measure.training import Training, seed_all
from autotune.numerics import Status, Task
from autotune.options.base import Context, Value
from autotune.options.space import Space, make_space, touching_maths
from autotune.probing.probe import probe
from autotune.records import Limits, Source, TrialSpec
from autotune.trials.numerics import Kept, check_numerics
from autotune.tuned import Tuned
from tests.small_models import BATCH, SMALL_MODELS

FEW, MANY = 30, 200  # configs, of the small models together
COMPILE = "compile_mode"
OPT_IN = frozenset({"cache_dataset"})
ACCUMULATED = 4 * BATCH  # samples per update where batches are accumulated


class Trained:
    """One small model with its space, and what was run of its baseline."""

    def __init__(self, name: str, effective_batch: int | None = None) -> None:
        self.workload = SMALL_MODELS[name]()
        spec = TrialSpec(
            number=0,
            kind="probe",
            config={},
            baseline={},
            source=Source(),
            device="cpu",
            limits=Limits(host_bytes=1 << 40),
            record_path="",
        )
        self.facts: Facts = probe(self.workload, spec, lambda *_: None, {"import_s": 0.0})
        context = Context(
            facts=dataclasses.replace(self.facts, native_bf16=True),  # emulated where it is not, and as exact
            machine=Machine.read(),
            baseline={"batch_size": BATCH},
            batch_step=4,
            effective_batch=effective_batch,
            allowed=OPT_IN,
        )
        self.space: Space = make_space(context)
        self.kept: Kept = {}
        self._sound: set[Config] = set()

    def configs(self, count: int, seed: int, *, compiled: bool) -> Iterator[Config]:
        """Yield random canonical configs, all different in what the space lets differ."""
        draw = random.Random(seed)
        for _ in range(count):
            values: dict[str, Value] = {name: draw.choice(found) for name, found in self.space.choices.items()}
            if COMPILE in values and not compiled:
                values[COMPILE] = "off"
            yield self.space.canonical(Config(**values))

    def check(self, config: Config) -> str:
        """Return what came of it; fails where it is neither sound nor refused with a reason."""
        refused = self.space.legal(config)
        if refused is not None:
            assert refused
            return "unsupported"
        alike = Config(**touching_maths(self.space.baseline, config))
        if alike in self._sound:  # the guard would do the very same again
            return "ok"
        found = check_numerics(
            self.workload, self.space.baseline, config, device="cpu", task=Task(steps=2), kept=self.kept
        )
        assert found.status in (Status.PASSED, Status.UNTOUCHED), f"{config}: {found.short}\n{found}"
        for comparison in found.comparisons:
            assert comparison.loss_difference is not None
            assert comparison.loss_difference <= comparison.allowed_loss_difference
        self._sound.add(alike)
        return "ok"


@pytest.fixture(scope="module", params=SMALL_MODELS)
def trained(request: pytest.FixtureRequest) -> Trained:
    torch.set_num_threads(1)
    return Trained(request.param)


@pytest.mark.parametrize("count", [FEW, pytest.param(MANY, marks=pytest.mark.slow)])
def test_every_config_trains_as_the_baseline_or_says_why_not(trained: Trained, count: int) -> None:
    outcomes: dict[Config, str] = {}
    for config in trained.configs(count // len(SMALL_MODELS) + 1, seed=count, compiled=False):
        key = config.replace(batch_size=BATCH, num_workers=0)  # the guard's batch, and no other processes
        outcomes[config] = trained.check(key if trained.space.legal(config) is None else config)
        _checkpoints_fit(trained, config)
    assert set(outcomes.values()) <= {"ok", "unsupported"}
    assert list(outcomes.values()).count("ok") > len(outcomes) / 2


def _checkpoints_fit(trained: Trained, config: Config) -> None:
    """A checkpoint of plain PyTorch's loads into the tuned model, and the other way round."""
    plain = trained.workload.model()
    with Tuned(config, device="cpu") as tuned:
        model = tuned.model(trained.workload.model())
    assert list(model.state_dict()) == list(plain.state_dict()), config
    model.load_state_dict(plain.state_dict())
    plain.load_state_dict(model.state_dict())
    assert all(torch.equal(one, other) for one, other in zip(model.parameters(), plain.parameters(), strict=True))


@pytest.mark.parametrize("name", SMALL_MODELS)
def test_accumulated_batches_train_as_the_whole(name: str) -> None:
    trained = Trained(name, effective_batch=ACCUMULATED)
    assert "accumulation" in trained.space.decided
    checked = [config.replace(num_workers=0) for config in trained.configs(4, seed=2, compiled=False)]
    assert len({config.value("accumulation") for config in checked}) > 1
    assert all(trained.check(config) in ("ok", "unsupported") for config in checked)


@pytest.mark.filterwarnings("ignore:This DataLoader will create")  # one more than the cores is among the choices
@pytest.mark.parametrize("name", SMALL_MODELS)
def test_every_option_alone_runs_with_its_own_loader(name: str) -> None:
    trained = Trained(name)
    for option, values in trained.space.choices.items():
        for value in values:
            if option == COMPILE or trained.space.baseline.value(option) == value:
                continue
            config = trained.space.canonical(trained.space.baseline.replace(**_with_needs(trained, option, value)))
            if trained.space.legal(config) is None:
                _steps(trained, config)


def _with_needs(trained: Trained, option: str, value: Value) -> dict[str, Any]:
    from autotune.options import OPTIONS

    needs = OPTIONS[option].needs
    if needs is None or needs == COMPILE:
        return {option: value}
    return {option: value, needs: next(item for item in trained.space.choices[needs] if item != OPTIONS[needs].default)}


def _steps(trained: Trained, config: Config) -> None:
    seed_all(0)
    training = Training(trained.workload, config, device="cpu")
    with training.tuned:
        losses = [training.step(batch) for batch, _ in zip(training.loader, range(2), strict=False)]
    assert losses
    assert all(loss is not None and torch.isfinite(loss) for loss in losses), config


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_compiled_configs_train_as_the_baseline(trained: Trained) -> None:
    if COMPILE not in trained.space.choices:
        pytest.skip(f"compile_mode: {trained.space.reasons.get(COMPILE, 'no such option')}")
    seen = set()
    for config in trained.configs(40, seed=3, compiled=True):
        key = config.replace(batch_size=BATCH, num_workers=0)
        if config.value(COMPILE) != "off" and key not in seen and trained.space.legal(config) is None and len(seen) < 6:
            seen.add(key)
            trained.check(key)
            _checkpoints_fit(trained, config)
    assert seen
