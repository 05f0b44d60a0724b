"""A dozen scripts in the shapes that people have them, unmodified: found out, measured, run with a config."""

from __future__ import annotations

import importlib.util

import pytest

from autotune.config import Config
from autotune.machine import Machine
from autotune.options.base import Context
from autotune.options.space import make_space
from autotune.records import Outcome
from autotune.scripting.run import AppliedConfig, run_script
from tests.sampling import some
from tests.scripting.conftest import losses_in
from tests.scripting.unmodified.conftest import files

FOUND = {
    # what is known of each: facts, how it trains, and words from the reasons of options that do not apply
    "mnist": ({"model": "Net", "optimizer": "Adadelta", "dataset_length": 192}, {"loader": 0}, {}),
    "imagenet": ({"model": "Sequential", "optimizer": "SGD", "batchnorm": True}, {"loader": 0}, {}),
    "nanogpt": (
        {"model": "GPT", "dataset_length": None, "chain_length": 2},
        {"loader": None, "samples_per_step": 8},
        {"batch_size": "makes its batches itself", "num_workers": "no DataLoader"},
    ),
    "dcgan": ({"optimizer": "Adam, Adam"}, {"loader": 0, "updates_per_step": 2}, {}),
    "dict_transformer": ({"model": "Classifier", "variable_shapes": True}, {"loader": 0}, {}),
    "loss_from_model": ({"model": "Model", "dataset_length": 128}, {"loader": 0}, {}),
    "scaler": (
        {"own_autocast": True, "own_scaler": True},
        {"loader": 0, "batches_per_update": 4},
        {"precision": "autocast"},
    ),
    "iterable": ({"iterable": True, "optimizer": "RMSprop", "dataset_length": None}, {"loader": 0}, {}),
    "item_every_step": ({"dataset_length": 160, "optimizer": "Adam"}, {"loader": 0}, {}),
    "config_folder": ({"dataset_length": 160, "optimizer": "SGD"}, {"loader": 0}, {}),
    "exits": ({"model": "Linear", "dataset_length": 160}, {"loader": 0}, {}),
}


@pytest.mark.parametrize("name", some(FOUND))
def test_a_script_is_found_out_and_trains_as_it_does_alone(real, folder, copy, alone, monkeypatch, name):
    script, before = folder / f"{name}.py", files(folder)
    facts = real.probe(script, unmodified=True)
    expected, how, why_not = FOUND[name]
    assert {key: getattr(facts, key) for key in expected} == expected
    assert {key: getattr(facts.script, key) for key in how} == how
    space = make_space(Context(facts=facts, machine=Machine.read(), baseline=dict(facts.baseline)))
    for option, words in why_not.items():
        assert words in space.reasons[option]
    record = real.run(
        script,
        config=dict(facts.baseline),
        unmodified=True,
        found=facts.script,
        dataset_length=facts.dataset_length,
        fixed_batch=facts.fixed_batch is not None,
    )
    assert record.outcome is Outcome.OK, record.failure
    assert record.measurement.updates >= 3
    monkeypatch.syspath_prepend(copy)
    own = alone(copy / f"{name}.py")
    first = facts.script.batches_per_update  # until the first update nothing is measured
    measured = list(record.measurement.losses)
    assert measured == own[first : first + len(measured)]  # bit for bit
    assert files(folder) == before


@pytest.mark.parametrize("name", some(FOUND))
def test_a_run_with_a_config_reaches_the_scripts_own_end(copy, capsys, name):
    applied = AppliedConfig(Config(batch_size=20, precision="bf16"), None if name == "nanogpt" else 0, lambda _: None)
    status = run_script(copy / f"{name}.py", (), applied)
    out = capsys.readouterr().out
    assert status == 0
    assert "end reached" in out
    assert losses_in(out)
    said = applied.applied.keys() | applied.refused.keys()
    assert said == {"batch_size", "precision"}
    assert ("batch_size" in applied.refused) == (name == "nanogpt")
    assert ("precision" in applied.refused) == (name == "scaler")


@pytest.mark.skipif(
    not (importlib.util.find_spec("lightning") or importlib.util.find_spec("pytorch_lightning")),
    reason="lightning is not installed",
)
def test_a_trainer_of_lightning_is_followed(real, folder):
    script, before = folder / "lightning_module.py", files(folder)
    facts = real.probe(script, unmodified=True)
    assert facts.optimizer == "Adam"
    assert facts.dataset_length == 160
    record = real.run(
        script, config=dict(facts.baseline), unmodified=True, found=facts.script, dataset_length=facts.dataset_length
    )
    assert record.outcome is Outcome.OK, record.failure
    assert files(folder) == before
