"""C54: how a batch becomes a loss, resolved once and said in words."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from autotune.errors import WorkloadError
from autotune.workload import Workload
from autotune.workload.step import LossStep, check_trains, find_loss

BATCH = [torch.randn(6, 4), torch.randint(0, 3, (6,))]


class Model(nn.Module):
    """Returns whatever `make(loss, logits)` makes of them."""

    def __init__(self, make):
        super().__init__()
        self.layer, self.make = nn.Linear(4, 3), make

    def forward(self, inputs, target=None, **extra):
        logits = self.layer(inputs)
        return self.make(nn.functional.cross_entropy(logits, BATCH[1]), logits)


def step_of(make, batch=BATCH, **parts):
    workload = Workload(model=lambda: None, dataset=lambda: None, **parts)
    step = LossStep(workload)
    loss = step(Model(make), batch)
    assert loss.shape == ()
    check_trains(loss)
    return step.description


RESOLVED = {
    "scalar": (lambda loss, logits: loss, "model(*batch)"),
    "one element": (lambda loss, logits: loss.reshape(1, 1), "model(*batch)"),
    "logits and loss": (lambda loss, logits: (logits, loss), "model(*batch)[1]"),
    "loss and logits": (lambda loss, logits: (loss, logits), "model(*batch)[0]"),
    "object": (lambda loss, logits: SimpleNamespace(loss=loss, logits=logits), "model(*batch).loss"),
    "dict with loss": (lambda loss, logits: {"loss": loss, "logits": logits}, "model(*batch)['loss']"),
    "dict of losses": (lambda loss, logits: {"a": loss, "b": loss * 2}, "model(*batch), all values summed"),
}


@pytest.mark.parametrize("name", RESOLVED)
def test_c54_model_that_returns_its_loss(name):
    make, words = RESOLVED[name]
    assert step_of(make) == words


def test_c54_dict_of_losses_is_summed():
    losses = {"a": torch.tensor(1.0), "b": torch.tensor([2.5])}
    assert find_loss(losses)[0](losses).item() == 3.5


AMBIGUOUS = {
    "tensor": lambda loss, logits: logits,
    "deep supervision": lambda loss, logits: [logits, logits],
    "several losses": lambda loss, logits: [loss, loss],
    "two scalars": lambda loss, logits: (loss, loss),
    "dict of outputs": lambda loss, logits: {"logits": logits, "accuracy": loss},
    "empty dict": lambda loss, logits: {},
    "whole number": lambda loss, logits: torch.tensor(3),
}


@pytest.mark.parametrize("name", AMBIGUOUS)
def test_c54_ambiguous_output_is_asked_about_with_its_structure(name):
    with pytest.raises(WorkloadError) as caught:
        step_of(AMBIGUOUS[name])
    assert "clearly the loss: it is " in caught.value.message
    assert "training_step=(model, batch) -> scalar" in caught.value.hint


def test_c54_structure_is_shown():
    with pytest.raises(WorkloadError, match=r"it is \[float32\[6, 3\], float32\[6, 3\]\]"):
        step_of(AMBIGUOUS["deep supervision"])


LOGITS = staticmethod(lambda loss, logits: logits)


@pytest.mark.parametrize(
    ("batch", "words"),
    [
        (BATCH, "loss(model(*batch[:-1]), batch[-1])"),
        (tuple(BATCH), "loss(model(*batch[:-1]), batch[-1])"),
        ([BATCH[0], None, BATCH[1]], "loss(model(*batch[:-1]), batch[-1])"),
        ({"inputs": BATCH[0], "labels": BATCH[1]}, "loss(model(**batch without labels), batch['labels'])"),
        ({"inputs": BATCH[0], "y": BATCH[1]}, "loss(model(**batch without y), batch['y'])"),
    ],
)
def test_loss_function_of_output_and_target(batch, words):
    assert step_of(LOGITS, batch, loss=nn.CrossEntropyLoss()) == words


def test_dict_batch_without_a_target_asks_for_a_training_step():
    with pytest.raises(WorkloadError, match=r"has no target: the batch is \{'inputs': float32"):
        step_of(LOGITS, {"inputs": BATCH[0]}, loss=nn.CrossEntropyLoss())


def test_training_step_of_two_arguments():
    found = step_of(LOGITS, training_step=lambda model, batch: nn.functional.cross_entropy(model(batch[0]), batch[1]))
    assert found == "training_step(model, batch)"


@pytest.mark.parametrize("result", ["loss", "pair", "dict"])
def test_training_step_may_return_more_than_the_loss(result):
    def training_step(model, batch):
        logits = model(batch[0])
        loss = nn.functional.cross_entropy(logits, batch[1])
        return {"loss": loss, "pair": (loss, logits), "dict": {"loss": loss, "logits": logits}}[result]

    assert step_of(LOGITS, training_step=training_step) == "training_step(model, batch)"


def test_training_step_of_three_arguments_does_its_own_step():
    workload = Workload(model=lambda: None, dataset=lambda: None, training_step=lambda tuned, model, batch: None)
    assert workload.own_step
    assert LossStep(workload).description == "training_step(tuned, model, batch)"
    assert not Workload(
        model=lambda: None, dataset=lambda: None, training_step=lambda model, batch, scale=1: None
    ).own_step


@pytest.mark.parametrize(
    ("parts", "says"),
    [
        ({"training_step": lambda model, batch: None}, "training_step returned None"),
        ({"training_step": lambda model, batch: 0.5}, "training_step returned a plain number"),
        ({"training_step": lambda model, batch: model(batch[0])}, "nothing in what training_step returned"),
        ({"loss": lambda output, target: None}, "loss returned None"),
        ({"loss": lambda output, target: output}, "the loss is not a scalar: it is float32"),
        ({}, "the model returned None"),
    ],
)
def test_what_is_no_loss_is_named_with_its_function(parts, says):
    make = LOGITS if parts else lambda loss, logits: None
    with pytest.raises(WorkloadError, match=says):
        step_of(make, **parts)


@pytest.mark.parametrize("make", [lambda loss, logits: loss.detach(), lambda loss, logits: torch.tensor(1.0)])
def test_loss_that_trains_nothing_is_refused(make):
    with pytest.raises(WorkloadError, match="does not depend on the model's trainable parameters"):
        step_of(make)


def test_class_weights_go_to_the_models_device():
    """They are made where the script is imported, before there is a device."""
    loss = nn.CrossEntropyLoss(weight=torch.ones(3))
    step = LossStep(Workload(model=lambda: None, dataset=lambda: None, loss=loss))
    placed = [item.to("meta") for item in BATCH]
    assert step(nn.Linear(4, 3, device="meta"), placed).device.type == "meta"
    assert loss.weight.device.type == "meta"
