"""The optimizers' implementations: each class that takes one is built with it, whoever builds it."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from autotune.config import Config
from autotune.implementations import built_with, implementations
from autotune.measure.training import Training
from autotune.measure.validity import UpdateCounter
from autotune.options.optimizer_impl import FLAGS
from autotune.probing.optimizers import probe_implementations
from autotune.tuned import Tuned
from autotune.workload import Workload
from tests.measure.measuring import Numbers

TAKES_FUSED = [torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD, torch.optim.Adagrad]
TAKES_FOREACH = [*TAKES_FUSED, torch.optim.RMSprop, torch.optim.NAdam, torch.optim.Adadelta]


class Own(torch.optim.AdamW):
    """A class of the user's own, which knows nothing of flags."""

    def __init__(self, params):
        super().__init__(params, lr=0.01)


def weights():
    torch.manual_seed(0)
    return [nn.Parameter(torch.randn(4, 3)), nn.Parameter(torch.randn(3))]


def state_of(optimizer):
    kept = {name: value for name, value in vars(optimizer).items() if isinstance(value, bool | int | str)}
    return kept, optimizer.defaults, [dict(group, params=None) for group in optimizer.param_groups]


@pytest.mark.parametrize("kind", TAKES_FUSED)
def test_c65_a_factory_that_takes_no_flags_builds_what_torch_itself_would_have(kind):
    parameters = weights()
    tuned = Tuned(Config(optimizer_impl="fused"), device="cpu")
    made = tuned.optimizer(lambda: kind(parameters, lr=0.1))
    assert state_of(made) == state_of(kind(parameters, lr=0.1, fused=True, foreach=False))
    assert implementations(made) == {"fused"}
    for item in parameters:
        item.grad = torch.ones_like(item)
    made.step()


@pytest.mark.parametrize("kind", TAKES_FOREACH)
def test_foreach_where_the_class_takes_it(kind):
    with built_with(FLAGS["foreach"]):
        assert implementations(kind(weights(), lr=0.1)) == {"foreach"}
    assert implementations(kind(weights(), lr=0.1)) == {"plain"}


def test_c65_a_class_that_lacks_the_flag_stays_as_it_is_and_the_others_take_it():
    with built_with(FLAGS["fused"]):
        first, second = torch.optim.RMSprop(weights()), Own(weights())
    assert implementations(first) == {"plain"}
    assert implementations(second) == {"fused"}
    assert second.defaults["lr"] == 0.01


def test_what_the_user_says_of_other_arguments_stays():
    tuned = Tuned(Config(optimizer_impl="fused"), device="cpu")
    made = tuned.optimizer(torch.optim.AdamW, weights(), 0.5, (0.8, 0.9), foreach=True, weight_decay=0.3)
    assert (made.defaults["lr"], made.defaults["betas"], made.defaults["weight_decay"]) == (0.5, (0.8, 0.9), 0.3)
    assert implementations(made) == {"fused"}


def test_the_constructors_are_put_back_even_after_an_error():
    before = torch.optim.AdamW.__init__
    with pytest.raises(ValueError, match="learning rate"), built_with(FLAGS["fused"]):
        torch.optim.AdamW(weights(), lr=-1.0)
    assert torch.optim.AdamW.__init__ is before


def test_c35_a_fused_update_that_was_skipped_is_none():
    """A fused optimizer's step is called, and its hooks run, on gradients that are not finite."""
    tuned = Tuned(Config(optimizer_impl="fused", precision="fp16"), device="cpu")
    model = nn.Linear(2, 1)
    optimizer = tuned.optimizer(torch.optim.SGD, model.parameters(), lr=0.1)
    before = copy.deepcopy(model.state_dict())
    tuned.backward(model(torch.ones(1, 2)).sum() * float("inf"))
    assert not tuned.step(optimizer)
    assert all(torch.equal(before[name], item) for name, item in model.state_dict().items())
    tuned.backward(model(torch.ones(1, 2)).sum())
    assert tuned.step(optimizer)
    assert not torch.equal(before["weight"], model.weight)


def make_training(optimizer, **config):
    workload = Workload(
        model=lambda: nn.Linear(4, 3), dataset=lambda: Numbers(32), loss=nn.CrossEntropyLoss(), optimizer=optimizer
    )
    return Training(workload, Config(batch_size=8, **config), device="cpu")


def test_a7_skipped_updates_of_a_fused_optimizer_do_not_count_as_effective():
    training = make_training(lambda params: torch.optim.SGD(params, lr=0.1), optimizer_impl="fused", precision="fp16")
    counter = UpdateCounter(training)
    training.step([torch.full((8, 4), float("inf")), torch.zeros(8, dtype=torch.long)])
    assert counter.effective == 0
    training.step([torch.ones(8, 4), torch.zeros(8, dtype=torch.long)])
    assert counter.effective == 1


@pytest.mark.parametrize(
    ("optimizer", "expected"),
    [
        (lambda params: torch.optim.AdamW(params), ("foreach", "fused")),
        (lambda params: torch.optim.RMSprop(params), ("foreach",)),
        (lambda params: torch.optim.SGD(params, fused=True), ("foreach",)),
    ],
)
def test_c65_the_probe_tries_what_the_optimizer_takes(optimizer, expected):
    training = make_training(optimizer)
    training.model.weight.grad = gradient = torch.ones(3, 4)
    before = copy.deepcopy(training.model.state_dict())
    assert probe_implementations(training) == (expected, None)
    assert all(torch.equal(before[name], item) for name, item in training.model.state_dict().items())
    assert training.model.weight.grad is gradient
    assert training.model.bias.grad is None


def test_several_optimizers_are_asked_together():
    def factory(model):
        return [torch.optim.RMSprop([model.weight]), torch.optim.Adam([model.bias])]

    training = make_training(factory)
    assert probe_implementations(training)[0] == ("foreach", "fused")


def test_an_optimizer_without_flags_has_a_reason():
    found, reason = probe_implementations(make_training(lambda params: torch.optim.LBFGS(params)))
    assert found == ()
    assert reason == "LBFGS takes neither foreach nor fused"


def test_an_implementation_that_fails_or_updates_otherwise_is_no_choice():
    class Crooked(torch.optim.SGD):
        def __init__(self, params, fused=None, foreach=None):
            super().__init__(params, lr=0.1 if fused is None else 0.2, fused=fused)
            if foreach:
                raise RuntimeError("no lists here")

    found, reason = probe_implementations(make_training(Crooked))
    assert found == ()
    assert "no lists here" in reason
    assert "fused of Crooked updates otherwise" in reason


@pytest.mark.parametrize("saved", [{}, {"foreach": True}, {"fused": True}], ids=str)
@pytest.mark.parametrize("impl", FLAGS)
def test_a_checkpoint_of_another_implementation_is_taken_up_and_the_configs_stays(impl, saved):
    """A training that goes on from what it saved before it was tuned; under fp16 a fused one would fail, too."""
    config = Config(optimizer_impl=impl, precision="fp16")
    model = nn.Linear(2, 1)
    before = torch.optim.AdamW(model.parameters(), lr=0.3, **saved)
    model(torch.ones(1, 2)).sum().backward()
    before.step()
    state = before.state_dict()
    kept = copy.deepcopy(state)
    tuned = Tuned(config, device="cpu")
    optimizer = tuned.optimizer(torch.optim.AdamW, model.parameters(), lr=0.1)
    optimizer.load_state_dict(state)
    assert implementations(optimizer) == {impl}
    assert optimizer.param_groups[0]["lr"] == 0.3
    assert state["param_groups"] == kept["param_groups"]
    tuned.backward(model(torch.ones(1, 2)).sum())
    assert tuned.step(optimizer)
