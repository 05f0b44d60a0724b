"""Finding the one workload of a script, and what a Workload takes."""

from __future__ import annotations

from types import ModuleType

import pytest
from torch import nn

from autotune.errors import UsageError, WorkloadError
from autotune.workload import ROLES, Workload
from autotune.workload.find import find_workload


def build_model():
    return nn.Linear(4, 3)


def build_dataset():
    return []


def make(**parts):
    return Workload(**{"model": build_model, "dataset": build_dataset, **parts})


def module(**names):
    made = ModuleType("script")
    made.__file__ = "/somewhere/script.py"
    vars(made).update(names)
    for value in names.values():
        if hasattr(value, "__code__"):
            value.__module__ = "script"
    return made


def test_one_workload_under_any_name():
    workload = make()
    assert find_workload(module(anything=workload)) is workload


def test_one_workload_under_two_names_is_one():
    workload = make()
    assert find_workload(module(a=workload, b=workload)) is workload


def test_workload_by_name():
    first, second = make(), make()
    assert find_workload(module(a=first, b=second), name="b") is second


def test_functions_of_conventional_names():
    def build_optimizer(parameters):
        return None

    def loss(output, target):
        return output

    def collate_fn(samples):
        return samples

    names = {"build_model": build_model, "build_dataset": build_dataset, "build_optimizer": build_optimizer}
    found = find_workload(module(**names, loss=loss, collate_fn=collate_fn))
    assert (found.model, found.dataset, found.optimizer) == (build_model, build_dataset, build_optimizer)
    assert (found.loss, found.collate_fn) == (loss, collate_fn)


def test_functions_named_on_the_command_line():
    def net():
        return None

    def photos():
        return None

    found = find_workload(module(net=net, photos=photos), functions={"model": "net", "dataset": "photos"})
    assert (found.model, found.dataset) == (net, photos)


def test_training_step_goes_before_a_function_called_loss():
    def loss(output, target):
        return output

    def training_step(model, batch):
        return loss(model(batch), batch)

    names = {"build_model": build_model, "build_dataset": build_dataset, "loss": loss, "training_step": training_step}
    assert find_workload(module(**names)).training_step is training_step
    named = find_workload(module(**names), functions={"loss": "loss"})
    assert named.loss is loss
    assert named.training_step is None


def test_value_of_a_conventional_name_that_is_no_function_is_left_alone():
    names = {"build_model": build_model, "build_dataset": build_dataset}
    assert find_workload(module(**names, loss=0.25, sampler=None)).loss is None


@pytest.mark.parametrize("role", ["model", "dataset", "optimizer", "loss", "training_step"])
def test_value_that_is_named_and_no_function_is_refused(role):
    names = {"build_model": build_model, "build_dataset": build_dataset, "mine": "text"}
    with pytest.raises(WorkloadError, match=r"^mine in script\.py is a str, not a function") as caught:
        find_workload(module(**names), functions={role: "mine"})
    assert f"--{role.replace('_', '-')} names a function" in caught.value.hint


@pytest.mark.parametrize("name", ["", "mine"])
@pytest.mark.parametrize("role", ["loss", "model"])
def test_part_that_is_named_beside_a_whole_workload_is_refused(name, role):
    script = module(mine=make(), part=build_model, build_model=build_model, build_dataset=build_dataset)
    with pytest.raises(UsageError, match=rf"has a workload \(mine\), and --{role} is for scripts without one"):
        find_workload(script, name=name, functions={role: "part"})


def test_a_module_that_is_named_is_a_loss():
    names = {"build_model": build_model, "build_dataset": build_dataset, "mine": nn.MSELoss()}
    assert find_workload(module(**names), functions={"loss": "mine"}).loss is names["mine"]


def test_no_workload_lists_what_was_found():
    def make_net():
        return None

    with pytest.raises(WorkloadError, match=r"no workload; found make_net\(\)") as caught:
        find_workload(module(make_net=make_net, _hidden=make_net))
    assert "build_model()" in caught.value.hint


def test_every_role_may_be_none_and_nothing_else():
    for role in ROLES:
        with pytest.raises(WorkloadError, match=rf"Workload\({role}=...\) takes a function, not an int"):
            make(**{role: 3})


def test_loss_and_training_step_together_are_refused():
    with pytest.raises(WorkloadError, match="not both"):
        make(loss=nn.MSELoss(), training_step=lambda model, batch: None)


@pytest.mark.parametrize(
    ("parts", "says"),
    [
        ({"model": lambda width: None}, r"model is called as model\(\), and <lambda>\(width\) needs more"),
        ({"dataset": lambda root: None}, r"<lambda>\(root\) needs more"),
        ({"dataset": lambda batch_size, root: None}, "needs more"),
        ({"loss": lambda output, target, weight: None}, "needs more"),
        ({"optimizer": lambda parameters, rate: None}, "needs more"),
        ({"loader": lambda batch_size, root, **options: None}, "needs more"),
        ({"training_step": lambda a, b, c, d: None}, "needs more"),
        ({"baseline": 64}, "takes a dict, not an int"),
        ({"baseline": {"batchsize": 64}}, "unknown option: batchsize"),
        ({"baseline": {"batch_size": "64"}}, "batch_size takes a whole number"),
        ({"baseline": {3: 4}}, "baseline"),
    ],
)
def test_what_cannot_work_is_refused_when_the_workload_is_made(parts, says):
    with pytest.raises(WorkloadError, match=says):
        make(**parts)


@pytest.mark.parametrize(
    "parts",
    [
        {"model": nn.Identity},
        {"model": lambda width=3: None},
        {"dataset": lambda *arguments, **options: []},
        {"loss": nn.CrossEntropyLoss()},
        {"loss": nn.functional.mse_loss},
        {"optimizer": lambda model: None},
        {"training_step": lambda tuned, model, batch: None},
        {"loader": lambda batch_size, **options: None},
        {"count_samples": len},
        {"baseline": {"batch_size": 64, "num_workers": 2}},
    ],
)
def test_usual_parts_are_taken(parts):
    make(**parts)


def test_dataset_of_whole_batches_takes_the_batch_size():
    assert make(dataset=lambda batch_size: []).pre_batched
    assert not make().pre_batched
    assert not make(dataset=lambda root=".": []).pre_batched
