"""Every kind of workload, probed and measured by one short real trial."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import pytest

from autotune.records import Outcome
from tests.workload.real_trials import SCRIPTS


@dataclass
class Case:
    """A workload of tests/scripts and what must be found out about it."""

    script: str
    workload: str = ""
    facts: dict = field(default_factory=dict)
    step: str = ""
    structure: str = ""
    config: dict = field(default_factory=lambda: {"batch_size": 8})
    samples_per_step: float | None = 8
    """None: an epoch's last batch is smaller, so that it is no round number"""

    def __str__(self):
        return f"{self.script}-{self.workload}".strip("-")


CASES = [
    Case(
        "classifier",
        facts={"dataset_length": 256, "batchnorm": True, "convolution_ranks": (4,), "optimizer": "SGD"},
        step="loss(model(*batch[:-1]), batch[-1])",
        structure="[float32[8, 3, 8, 8], int64[8]]",
    ),
    Case(
        "dict_transformer",
        facts={"chain": "blocks", "chain_length": 2, "optimizer": "AdamW", "default_optimizer": False},
        step="model(**batch).loss",
        structure="{'input_ids': int64[8, 12], 'attention_mask': float32[8, 12], 'labels': int64[8, 12]}",
    ),
    Case(
        "unet", facts={"convolution_ranks": (4,), "default_optimizer": True}, structure="[float32[8, 1, 16, 16], int64"
    ),
    Case(
        "detection",
        facts={"fixed_batch": None, "dataset_length": 80, "variable_shapes": True},
        step="model(*batch), all values summed",
    ),
    Case("variable_length", "padded", facts={"variable_shapes": True, "dataset_length": 120, "fixed_batch": None}),
    Case("iterable", "whole", facts={"dataset_length": None, "iterable": True}, samples_per_step=None),
    Case(
        "iterable",
        "shared",
        facts={"iterable": True, "workers_refused": None},
        config={"batch_size": 5, "num_workers": 2},
        samples_per_step=5,
    ),
    Case(
        "gan",
        facts={"own_step": True, "uses_tuned_autocast": True, "optimizer": "Adam, Adam"},
        step="training_step(tuned, model, batch)",
    ),
    Case("pre_batched", "dataset", facts={"dataset_length": None, "fixed_batch": None, "workers_refused": None}),
    Case("pre_batched", "listed", facts={"fixed_batch": None}),
    Case("pre_batched", "generated", facts={"fixed_batch": None}),
    Case(
        "custom_loader",
        "plain",
        facts={"custom_loader": True, "fixed_batch": None, "dataset_length": 128},
        config={"batch_size": 8, "num_workers": 1, "prefetch_factor": 2},
    ),
    Case("custom_loader", "narrow", facts={"fixed_batch": None}, config={"batch_size": 8, "num_workers": 0}),
    Case(
        "custom_loader",
        "dropping",
        facts={"drop_last": True, "dataset_length": 128},
        config={"batch_size": 48},
        samples_per_step=48,
    ),
    Case("custom_loader", "following_sampler", facts={"fixed_batch": None}),
    Case("parts", "tied"),
    Case("parts", "lazy", facts={"parameters": 4 * 8 + 8 + 8 * 3 + 3}),
    Case("parts", "half", facts={"parameters": 67, "trainable_parameters": 27}),
    Case("parts", "recurrent"),
    Case("parts", "autoencoder", step="loss(model(batch), batch)", structure="float32[8, 4]"),
    Case("parts", "named_tuple", structure="Points(float32[8, 4], int64[8])"),
    Case("parts", "data_class", step="loss(model(batch), batch.y)", facts={"fixed_batch": None}),
    Case("parts", "own_object", step="loss(model(batch), batch.y)", facts={"fixed_batch": None}),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_kind_is_probed_and_measured(case, real):
    facts = real.probe(SCRIPTS / f"{case.script}.py", workload=case.workload)
    assert {name: getattr(facts, name) for name in case.facts} == case.facts
    assert case.step in facts.step
    assert case.structure in facts.batch_structure
    record = real.run(
        SCRIPTS / f"{case.script}.py",
        config=case.config,
        workload=case.workload,
        dataset_length=facts.dataset_length,
        fixed_batch=facts.fixed_batch is not None,
    )
    assert record.outcome is Outcome.OK, record.failure
    found = record.measurement
    assert found.updates >= 3
    assert all(map(math.isfinite, found.losses))
    assert record.gradient_names
    if case.samples_per_step is not None:
        assert found.samples_per_step == pytest.approx(case.samples_per_step, rel=0.1)
