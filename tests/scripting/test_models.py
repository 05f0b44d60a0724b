"""The forward of a script's model as the plan has it: what the script does itself goes on as it is by itself."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import types
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from autotune.options.channels_last import tensor_to_channels_last
from autotune.plan import Plan
from autotune.scripting.models import ModelHooks

Pair = collections.namedtuple("Pair", ["image", "number"])


class Model(nn.Module):
    """Trainable; its forward is what a test gives."""

    def __init__(self, forward: Any) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(()))
        self.work = forward

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.work(self.weight, *args, **kwargs)


@pytest.fixture
def compute():
    """Run a forward under a plan."""
    found = []

    def run(plan: Plan, forward: Any, *args: Any, **kwargs: Any) -> Any:
        hooks = ModelHooks(plan)
        found.append(hooks)
        hooks.find()
        return Model(forward)(*args, **kwargs)

    yield run
    for hooks in reversed(found):  # each sets back what the one before it had set
        hooks.stop_finding()


def last(compute, forward: Any, *args: Any, **kwargs: Any) -> Any:
    return compute(Plan(tensor_transforms=[tensor_to_channels_last]), forward, *args, **kwargs)


def images() -> torch.Tensor:
    return torch.zeros(2, 3, 4, 4)


def is_last(tensor: torch.Tensor) -> bool:
    return tensor.is_contiguous(memory_format=torch.channels_last)


# ---- autocast ----


@pytest.mark.parametrize("enabled", [True, False])
def test_no_autocast_of_ours_is_entered_inside_one_of_the_scripts(compute, enabled):
    def precision(weight):
        return torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")

    plan = Plan(autocast_dtype="bfloat16")
    assert compute(plan, precision) == (True, torch.bfloat16)
    with torch.autocast("cpu", torch.float16, enabled=enabled):
        assert compute(plan, precision) == (enabled, torch.float16)
    assert compute(plan, precision) == (True, torch.bfloat16)


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize(("own", "kind"), [(None, torch.bfloat16), (False, torch.float32)])
def test_a_model_that_is_recomputed_as_a_whole_computes_as_in_its_forward(reentrant, own, kind):
    kinds = []

    def forward(weight, x):
        product = x @ x
        kinds.append(product.dtype)
        return weight * product.float()

    hooks = ModelHooks(Plan(autocast_dtype="bfloat16"))
    hooks.find()
    try:
        model, x = Model(forward), torch.ones(2, 2, requires_grad=True)
        with contextlib.nullcontext() if own is None else torch.autocast("cpu", enabled=own):
            checkpoint(lambda x: model(x).tanh(), x, use_reentrant=reentrant).sum().backward()
    finally:
        hooks.stop_finding()
    assert kinds == [kind, kind]


# ---- channels last ----


def test_what_a_forward_writes_into_a_tensor_comes_back_with_its_gradient(compute):
    def write(weight, image, state):
        assert is_last(image)
        assert is_last(state)
        state.copy_(image + weight)

    image, state = images(), images()
    last(compute, write, image, state=state)
    assert (state == 1).all()
    assert state.requires_grad
    assert not is_last(state)
    assert image._version == 0  # what was only read is not written into


def test_what_a_forward_puts_into_a_container_is_the_callers(compute):
    def put(weight, batch, kept):
        assert is_last(batch["image"])
        batch["logits"] = batch["image"] * weight
        batch["moved"] = batch.pop("image")
        kept.insert(0, "first")

    image, other = images(), images()
    batch, kept = {"image": image}, [other]
    last(compute, put, batch, kept)
    assert set(batch) == {"logits", "moved"}
    assert batch["moved"] is image
    assert kept[0] == "first"
    assert kept[1] is other


@dataclasses.dataclass(frozen=True)
class Sample:
    image: torch.Tensor
    found: dict[str, Any]


def test_containers_of_every_kind_are_the_callers_or_as_theirs(compute):
    def look(weight, sample, pair, fixed):
        sample.found["seen"] = True
        return [is_last(sample.image), is_last(pair.image), is_last(fixed["image"]), pair.number]

    image = images()
    sample, pair = Sample(image, {}), Pair(image, 5)
    fixed = types.MappingProxyType({"image": image})
    assert last(compute, look, sample, pair, fixed) == [True, True, True, 5]
    assert sample.found == {"seen": True}
    assert sample.image is pair.image is fixed["image"] is image


def test_where_nothing_is_converted_everything_is_handed_over_as_it_is(compute):
    given = ({"numbers": torch.arange(3)}, [torch.zeros(2, 2)], (torch.ones(1), "text"))
    received = last(compute, lambda weight, *args: args, *given)
    assert all(one is other for one, other in zip(received, given, strict=True))


def test_a_tensor_given_twice_stays_one(compute):
    image = images()
    assert last(compute, lambda weight, one, other: one["image"] is other, {"image": image}, image)


def test_a_forward_that_fails_leaves_the_callers_batch_as_it_was(compute):
    def fail(weight, batch):
        raise RuntimeError("no")

    image = images()
    batch = {"image": image}
    with pytest.raises(RuntimeError, match="no"):
        last(compute, fail, batch)
    assert batch["image"] is image


def test_in_inference_mode_the_forward_writes_into_the_callers_tensor(compute):
    image = images()
    with torch.inference_mode():
        last(compute, lambda weight, given: given.add_(1), image)
    assert (image == 1).all()


def test_a_leaf_is_written_into_as_by_the_forward_itself(compute):
    def write(weight, image):
        with torch.no_grad():
            image.add_(1)

    image = images().requires_grad_()
    last(compute, write, image)
    assert (image == 1).all()
    assert image.is_leaf
