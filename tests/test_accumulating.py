"""Accumulated gradients: those of the whole batch, in each group of an epoch; an update only where one is due."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from autotune.accumulating import counter_for, with_ends
from autotune.config import Config
from autotune.errors import WorkloadError
from autotune.probing.data import epoch_length
from autotune.samples import epoch_batches
from autotune.tuned import Tuned


def data(length: int) -> TensorDataset:
    numbers = torch.Generator().manual_seed(3)
    return TensorDataset(torch.randn(length, 4, generator=numbers, dtype=torch.double), torch.arange(length) % 3)


def make_model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3)).double()


class Stream(IterableDataset):
    """The same samples, and nobody knows how many."""

    def __init__(self, length: int) -> None:
        self.samples = list(data(length))

    def __iter__(self):
        return iter(self.samples)


def train(loader, tuned, epochs=2, clip=None, rate=0.3):
    """Return the gradients of every update and the parameters at the end."""
    model = tuned.model(make_model())
    optimizer = tuned.optimizer(torch.optim.SGD, model.parameters(), lr=rate, momentum=0.9)
    found = []
    optimizer.register_step_pre_hook(
        lambda *_: found.append(torch.cat([item.grad.flatten() for item in model.parameters()]).clone())
    )
    said = []
    for _ in range(epochs):
        for inputs, target in loader:
            loss = nn.functional.cross_entropy(model(inputs), target)
            tuned.backward(loss)
            said.append(tuned.step(optimizer, clip_norm=clip))
    return found, [item.detach().clone() for item in model.parameters()], said


def check_equal(first, second, tolerance=1e-12):
    assert len(first[0]) == len(second[0])
    for one, other in zip([*first[0], *first[1]], [*second[0], *second[1]], strict=True):
        assert (one - other).abs().max() <= tolerance * one.abs().max()


@pytest.mark.parametrize("clip", [None, 0.05])
@pytest.mark.parametrize("length", [64, 72, 70, 77, 65, 40, 5])
@pytest.mark.parametrize("micro", [2, 4, 8, 16])
def test_e8_gradients_equal_those_of_the_whole_batch_in_incomplete_groups_too(micro, length, clip):
    """In float64, without BatchNorm: to 1e-12. The last batch and the last group of an epoch may be smaller."""
    plain = Tuned(Config(batch_size=16), device="cpu")
    whole = train(plain.loader(data(length)), plain, clip=clip)
    tuned = Tuned(Config(batch_size=micro, accumulation=16 // micro), device="cpu")
    parts = train(tuned.loader(data(length)), tuned, clip=clip)
    check_equal(whole, parts)
    assert sum(parts[2]) == 2 * math.ceil(length / 16)
    assert parts[2][-1]


@pytest.mark.parametrize("length", [64, 70])
def test_the_end_of_an_epoch_of_unknown_length_is_known(length):
    plain = Tuned(Config(batch_size=16), device="cpu")
    whole = train(plain.loader(data(length)), plain)
    tuned = Tuned(Config(batch_size=4, accumulation=4), device="cpu")
    check_equal(whole, train(tuned.loader(Stream(length)), tuned))


def test_a_loader_of_ones_own_without_length_is_looked_ahead_of():
    class Own:
        def __iter__(self):
            return iter(DataLoader(data(38), batch_size=4))

    plain = Tuned(Config(batch_size=16), device="cpu")
    whole = train(plain.loader(data(38)), plain)
    tuned = Tuned(Config(batch_size=4, accumulation=4), device="cpu")
    check_equal(whole, train(tuned.batches(Own()), tuned))


def test_dropped_last_batches_are_not_waited_for():
    plain = Tuned(Config(batch_size=16), device="cpu")
    whole = train(DataLoader(torch.utils.data.Subset(data(70), range(68)), batch_size=16), plain)
    tuned = Tuned(Config(batch_size=4, accumulation=4), device="cpu")
    check_equal(whole, train(tuned.loader(data(70), drop_last=True), tuned))


def test_step_says_when_an_update_happened():
    tuned = Tuned(Config(batch_size=4, accumulation=4), device="cpu")
    said = train(tuned.loader(data(38)), tuned, epochs=1)[2]
    assert said == [False, False, False, True, False, False, False, True, False, True]


def test_without_a_loader_made_here_the_rest_is_finished_by_hand():
    tuned = Tuned(Config(accumulation=4), device="cpu")
    model = make_model()
    optimizer = tuned.optimizer(torch.optim.SGD, model.parameters(), lr=0.1)
    inputs, target = data(8).tensors
    for part in range(3):
        tuned.backward(nn.functional.cross_entropy(model(inputs[part : part + 2]), target[part : part + 2]))
        assert not tuned.step(optimizer)
    assert tuned.finish(optimizer)
    assert not tuned.finish(optimizer)
    assert all(item.grad is None for item in model.parameters())
    assert not Tuned(Config(), device="cpu").finish(optimizer)


def test_c35_c82_scaled_gradients_are_accumulated_unscaled_once_and_clipped():
    """fp16's scaler: one scale for the group, one unscale, one step, one update of the scale."""
    plain = Tuned(Config(batch_size=16), device="cpu")
    whole = train(plain.loader(data(38)), plain, clip=0.05)
    tuned = Tuned(Config(batch_size=4, accumulation=4), device="cpu")
    tuned._scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)  # without autocast: float64 shows each error

    model = tuned.model(make_model())
    optimizer = tuned.optimizer(torch.optim.SGD, model.parameters(), lr=0.3, momentum=0.9)
    updates = 0
    for _ in range(2):
        for inputs, target in tuned.loader(data(38)):
            tuned.backward(nn.functional.cross_entropy(model(inputs), target))
            updates += tuned.step(optimizer, clip_norm=0.05)
    assert updates == 6
    assert int(tuned._scaler.state_dict()["_growth_tracker"]) == 6
    for one, other in zip(whole[1], model.parameters(), strict=True):
        assert (one - other).abs().max() <= 1e-12 * one.abs().max()


def test_c35_an_overflow_in_one_batch_of_a_group_skips_its_update_alone():
    tuned = Tuned(Config(batch_size=4, accumulation=2, precision="fp16"), device="cpu")
    model = make_model()
    optimizer = tuned.optimizer(torch.optim.SGD, model.parameters(), lr=0.1)
    inputs, target = data(4).tensors
    said = []
    for factor in (1.0, math.inf, 1.0, 1.0):
        tuned.backward(nn.functional.cross_entropy(model(inputs), target) * factor)
        said.append(tuned.step(optimizer))
    assert said == [False, False, False, True]
    assert all(torch.isfinite(item).all() for item in model.parameters())


def test_gradients_zeroed_in_the_middle_of_an_update_are_an_error():
    tuned = Tuned(Config(accumulation=2), device="cpu")
    model = make_model()
    optimizer = tuned.optimizer(torch.optim.SGD, model.parameters(), lr=0.1)
    inputs, target = data(4).tensors
    tuned.backward(nn.functional.cross_entropy(model(inputs), target))
    tuned.step(optimizer)
    optimizer.zero_grad()
    with pytest.raises(WorkloadError, match=r"zero_grad\(\) was called in the middle"):
        tuned.backward(nn.functional.cross_entropy(model(inputs), target))


def test_a_config_without_accumulation_does_not_look_ahead():
    tuned = Tuned(Config(), device="cpu")
    taken = []

    def own():
        for number in range(3):
            taken.append(number)
            yield torch.tensor(number)

    batches = iter(tuned.batches(own()))
    next(batches)
    assert taken == [0]


class Endless:
    """A sampler without an end, and so without a length."""

    def __iter__(self):
        while True:
            yield from range(4)


def test_a_sampler_without_length_leaves_the_length_unknown():
    loader = DataLoader(data(4), batch_size=2, sampler=Endless())
    assert epoch_batches(loader) is None
    assert epoch_length(loader) is None
    assert counter_for(loader, 2)([torch.zeros(2)], 0) == 2
    assert [last for _, last in itertools.islice(with_ends(loader, epoch_batches(loader)), 3)] == [False] * 3
