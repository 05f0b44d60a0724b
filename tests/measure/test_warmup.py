"""Warm-up: how long, until which updates, and what it finds out about a config that trains nothing."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from autotune.errors import WorkloadError
from autotune.measure.protocol import Wanted, measure
from autotune.measure.validity import NonFinite, TrainsNothing, where_gradient
from autotune.measure.warmup import warm_up
from tests.measure.measuring import FakeClock, make_workload, open_session


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.mark.parametrize(("step_s", "steps"), [(0.01, 101), (0.5, 6), (4.0, 6), (20.0, 3)])
def test_warm_up_lasts_five_steps_and_a_second_but_not_forever(clock, step_s, steps):
    made = 0

    def step(batch: Any) -> None:
        nonlocal made
        made += 1
        clock.sleep(step_s)

    session = open_session(make_workload(step, length=4096), clock=clock)
    warm_up(session, None)
    assert made == pytest.approx(steps, abs=1)


def test_a_slow_first_step_is_told_apart_and_slow_early_ones_do_not_count(clock):
    """Pitfall 3: the first four steps take ten times as long as all others."""
    steps = itertools.count()
    workload = make_workload(lambda batch: clock.sleep(0.2 if next(steps) < 4 else 0.02), length=4096)
    session = open_session(workload, clock=clock)
    found, _ = measure(session, Wanted())
    assert found.step_s == pytest.approx(0.02)
    assert session.seconds["first_step_s"] == pytest.approx(0.2)


def test_steps_that_are_slow_beyond_the_warm_up_are_truncated(clock):
    steps = itertools.count()
    workload = make_workload(lambda batch: clock.sleep(0.2 if next(steps) < 9 else 0.02), length=4096)
    found, _ = measure(open_session(workload, clock=clock), Wanted())
    assert found.step_s == pytest.approx(0.02)
    assert found.kept_from > 0


def test_the_first_batch_is_told_apart(clock):
    reads = itertools.count()

    def load(batch_size: int, **options: Any) -> Any:
        class Slow:
            def __iter__(self) -> Any:
                clock.sleep(3.0)
                while True:
                    next(reads)
                    yield torch.ones(8, 4), torch.zeros(8, dtype=torch.long)

        return Slow()

    session = open_session(make_workload(lambda batch: clock.sleep(0.02), loader=load, dataset=None), clock=clock)
    measure(session, Wanted())
    assert session.stream.first_batch_s == pytest.approx(3.0)
    assert session.seconds["first_step_s"] == pytest.approx(0.02)


# ---- effective updates ----


def scaled_loss(factor: float) -> Any:
    """A step on zeros, whose gradient on the bias is 8 x `factor`, in fp16 until it reaches the parameter."""

    def step(model: nn.Module, batch: Any) -> torch.Tensor:
        output = model(torch.zeros_like(batch[0]))
        assert output.dtype is torch.float16
        return (factor * output).sum()

    return step


def test_c35_a7_steps_skipped_by_the_scaler_do_not_count_as_warm_up(clock):
    """Pitfall 8: a gradient of 2 overflows under the scales 65536 and 32768; three updates follow."""
    steps = 0
    inner = scaled_loss(0.25)

    def step(model: nn.Module, batch: Any) -> torch.Tensor:
        nonlocal steps
        steps += 1
        clock.sleep(10.0)
        return inner(model, batch)

    session = open_session(
        make_workload(training_step=step, optimizer=lambda params: torch.optim.Adam(params)),
        clock=clock,
        precision="fp16",
    )
    updates, _ = warm_up(session, None)
    assert (steps, updates) == (5, 3)
    assert session.training.optimizers[0].state
    assert session.training.tuned.state_dict()["scaler"]["scale"] == 16384.0


def test_a_scale_that_never_fits_ends_as_no_update(clock):
    session = open_session(
        make_workload(training_step=scaled_loss(float("inf"))), clock=lambda: next(ticks), precision="fp16"
    )
    ticks = (0.01 * tick for tick in itertools.count())
    with pytest.raises((TrainsNothing, NonFinite)):
        warm_up(session, None)


def test_a6_the_optimizers_state_is_there_before_the_window(clock):
    session = open_session(make_workload(optimizer=lambda params: torch.optim.Adam(params)), clock=clock)
    ticks = (0.1 * tick for tick in itertools.count())
    session.clock = lambda: next(ticks)
    updates, names = warm_up(session, None)
    assert updates >= 3
    assert names == ("bias", "weight")
    assert all("exp_avg" in state for state in session.training.optimizers[0].state.values())


def test_several_optimizers_each_make_their_updates():
    class Pair(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.second(self.first(x))

    def optimizers(model: nn.Module) -> Any:
        return [torch.optim.SGD(part.parameters(), lr=0.1) for part in model.children()]

    ticks = (0.1 * tick for tick in itertools.count())
    session = open_session(make_workload(model=Pair, optimizer=optimizers), clock=lambda: next(ticks))
    updates, names = warm_up(session, None)
    assert updates >= 3
    assert names == ("first.bias", "first.weight", "second.bias", "second.weight")


# ---- what trains nothing ----


def quick(**parts: Any) -> Any:
    ticks = (0.1 * tick for tick in itertools.count())
    return open_session(make_workload(**parts), clock=lambda: next(ticks))


def test_b10_an_optimizer_over_other_parameters_is_found_out():
    stranger = nn.Linear(4, 3)
    session = quick(optimizer=lambda params: torch.optim.SGD(stranger.parameters(), lr=0.1))
    with pytest.raises(TrainsNothing, match="no parameter changed") as caught:
        warm_up(session, None)
    assert "optimizer" in caught.value.hint


def test_a_step_of_its_own_that_never_updates_is_found_out():
    def own(tuned: Any, model: nn.Module, batch: Any) -> torch.Tensor:
        loss = cross_entropy(model(batch[0]), batch[1])
        loss.backward()
        return loss

    with pytest.raises(TrainsNothing, match="no optimizer update"):
        warm_up(quick(training_step=own), None)


def test_c22_e4_a_gradient_that_the_baseline_has_must_be_there():
    with pytest.raises(TrainsNothing, match="1 parameters lose their gradient under this config: ghost"):
        warm_up(quick(), ("bias", "ghost", "weight"))


def test_c64_a_loss_without_a_graph_is_said():
    with pytest.raises(WorkloadError, match="does not depend"):
        warm_up(quick(training_step=lambda model, batch: torch.tensor(1.0)), None)


@pytest.mark.parametrize("value", ["nan", "inf"])
def test_c17_a_loss_that_is_no_number_is_no_measurement(value):
    bad = quick(training_step=lambda model, batch: model(batch[0]).sum() * float(value))
    with pytest.raises(NonFinite):
        warm_up(bad, None)


def test_c17_a_loss_that_becomes_nan_in_the_window_is_no_measurement(clock):
    steps = itertools.count()

    def step(model: nn.Module, batch: Any) -> torch.Tensor:
        clock.sleep(0.02)
        return model(batch[0]).sum() * (float("nan") if next(steps) > 70 else 1e-9)

    with pytest.raises(NonFinite):
        measure(open_session(make_workload(training_step=step, length=4096), clock=clock), Wanted())


# ---- gradients that a step leaves out ----


class SomeLayers(nn.Module):
    """Three heads, of which each step trains those of its turn, as experts, dropped layers and tasks are."""

    def __init__(self, turns: list[list[int]]) -> None:
        super().__init__()
        self.heads = nn.ModuleList(nn.Linear(4, 3, bias=False) for _ in range(3))
        self.turns = itertools.cycle(turns)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.stack([self.heads[index](x) for index in next(self.turns)]).sum(0)


HEADS = ["heads.0.weight", "heads.1.weight", "heads.2.weight"]


@pytest.mark.parametrize(
    ("turns", "always"),
    [([[0, 1, 2]], HEADS), ([[0, 1], [0, 2]], HEADS[:1]), ([[0, 1, 2], [1], [0]], []), ([[1, 2]], HEADS[1:])],
)
def test_the_baseline_tells_which_parameters_have_gradients_in_every_update(turns, always):
    assert warm_up(quick(model=lambda: SomeLayers(turns)), None)[1] == tuple(always)


def test_parameters_that_only_some_updates_use_have_their_gradients():
    warm_up(quick(model=lambda: SomeLayers([[0], [1], [2]])), tuple(HEADS))
    with pytest.raises(TrainsNothing, match=r"1 parameters lose .*: heads\.2\.weight"):
        warm_up(quick(model=lambda: SomeLayers([[0], [1]])), tuple(HEADS))


def test_of_several_optimizers_each_answers_for_its_own_parameters():
    """As a GAN's: the first one steps before the second one's parameters have any gradient."""

    def own(tuned: Any, model: SomeLayers, batch: Any) -> torch.Tensor:
        for index, optimizer in enumerate(session.training.optimizers):
            loss = model.heads[index](batch[0]).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        return loss

    session = quick(
        model=lambda: SomeLayers([[0]]),
        training_step=own,
        optimizer=lambda model: [torch.optim.SGD(head.parameters(), lr=0.1) for head in model.heads[:2]],
    )
    assert warm_up(session, None)[1] == tuple(HEADS[:2])


# ---- changes that few values show ----


class Tables(nn.Module):
    """Nothing but large tables, of which a step trains a few rows."""

    def __init__(self, sparse: bool) -> None:
        super().__init__()
        self.users, self.items = (nn.Embedding(5000, 16, sparse=sparse) for _ in range(2))

    def forward(self, numbers: torch.Tensor) -> torch.Tensor:
        return (self.users(numbers) * self.items(numbers)).sum()


@pytest.mark.parametrize(
    ("sparse", "optimizer"),
    [
        (False, lambda params: torch.optim.SGD(params, lr=0.1)),
        (False, lambda params: torch.optim.Adam(params)),
        (True, lambda params: torch.optim.SGD(params, lr=0.1)),
        (True, lambda params: torch.optim.SparseAdam(list(params))),
    ],
)
def test_a_table_of_which_a_step_trains_a_few_rows_does_train(sparse, optimizer):
    def collate(items: list[Any]) -> torch.Tensor:
        return torch.randint(1000, 5000, (len(items),))

    session = quick(
        model=lambda: Tables(sparse),
        collate_fn=collate,
        training_step=lambda model, batch: model(batch),
        optimizer=optimizer,
    )
    assert warm_up(session, None)[0] >= 3


@pytest.mark.parametrize(
    ("gradient", "place"),
    [
        (None, 0),
        (torch.zeros(3, 4), 0),
        (torch.tensor([[0.0] * 4, [0.0, 0.0, 2.0, 0.0], [1.0] * 4]), 6),
        (torch.tensor([[0.0] * 4, [0.0] * 4, [0.0, -2.0, 0.0, -1.0]]), 9),
        (
            torch.sparse_coo_tensor(
                [[0, 2]], torch.tensor([[0.0] * 4, [0.0, 0.0, -1.0, 0.0]]), (3, 4), check_invariants=True
            ),
            8,
        ),
        (
            torch.sparse_coo_tensor(
                torch.zeros(1, 0, dtype=torch.long), torch.zeros(0, 4), (3, 4), check_invariants=True
            ),
            0,
        ),
    ],
)
def test_a_change_is_looked_for_where_the_gradient_is_largest(gradient, place):
    item = nn.Parameter(torch.zeros(3, 4))
    item.grad = gradient
    assert where_gradient(item) == place


def test_a_scalar_has_one_place():
    item = nn.Parameter(torch.tensor(1.0))
    item.grad = torch.tensor(-1.0)
    assert where_gradient(item) == 0


def test_an_empty_parameter_has_no_largest_gradient():
    item = nn.Parameter(torch.zeros(0, 4))
    item.grad = torch.zeros(0, 4)
    assert where_gradient(item) == 0
