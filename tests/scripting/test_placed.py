"""A script that trains on another device than the one that is measured."""

from __future__ import annotations

import pytest
import torch

from autotune.scripting.placed import why_another_card, why_elsewhere

ELSEWHERE = """
    import torch
    from torch import nn

    weight = nn.Parameter(torch.ones(4, device="meta"))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    for step in range(1000):
        weight.sum().backward()
        optimizer.step()
"""


def on(*devices):
    """Return what has a device, and no memory there."""
    return [type("Parameter", (), {"device": torch.device(device)}) for device in devices]


@pytest.mark.parametrize(
    ("devices", "measured"),
    [
        (("cpu",), "cpu"),
        (("cuda:0",), "cuda"),
        (("cuda",), "cuda:0"),
        (("cuda:1",), "cuda:1"),
        (("cpu", "cuda:0"), "cuda:0"),
        (("cuda:1", "cuda:0"), "cuda:0"),
        ((), "cuda:0"),
    ],
)
def test_one_parameter_on_the_device_is_enough(devices, measured):
    assert why_elsewhere("train.py", on(*devices), torch.device(measured)) is None


@pytest.mark.parametrize(
    ("devices", "measured", "named"),
    [
        (("cpu",), "cuda:0", "--device cpu."),
        (("cuda:1",), "cuda", "--device cuda:1."),
        (("cuda",), "cuda:1", "--device cuda."),
        (("cuda:0",), "cpu", "--device cuda:0."),
    ],
)
def test_the_refusal_names_where_they_lie_and_the_way_out(devices, measured, named):
    found = why_elsewhere("train.py", on(*devices), torch.device(measured))
    assert f"train.py trains lie on {named[9:-1]}," in found.message
    assert named in found.hint


def test_a_script_whose_parameters_lie_elsewhere_is_refused(real, write):
    failure = real.refusal(write(ELSEWHERE), unmodified=True)
    assert "lie on meta, and what would be measured is cpu" in failure.message


@pytest.mark.parametrize(
    ("before", "now"), [(None, None), ("1", "1"), (None, "0"), (None, "0,1"), ("2,3", "2"), ("1", None)]
)
def test_a_script_that_sees_the_same_card_first_is_measured_on_it(before, now):
    assert why_another_card("train.py", before, now) is None


@pytest.mark.parametrize(("before", "now"), [(None, "1"), ("0", "1,0"), ("2,3", "3"), (None, "")])
def test_a_script_that_chooses_another_card_too_late_is_told_to_choose_it_outside(before, now):
    found = why_another_card("train.py", before, now)
    assert f"CUDA_VISIBLE_DEVICES={now} itself" in found.message
    assert f"CUDA_VISIBLE_DEVICES={now} autotune search train.py" in found.hint
