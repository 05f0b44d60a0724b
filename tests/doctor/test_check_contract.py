"""What every check keeps to; a new one is tested by existing."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from autotune.doctor.checks import all_checks
from autotune.doctor.examine import run_checks
from tests.doctor.looking import Clean, CleanImages, context_of, images, work

CHECKS = all_checks()


@pytest.mark.parametrize("name", CHECKS)
def test_a_check_says_what_it_looks_for_and_has_a_test(name):
    assert (CHECKS[name].__doc__ or "").strip()
    assert callable(CHECKS[name].check)
    assert (Path(__file__).parent / "checks" / f"test_{name}.py").exists()


@pytest.mark.parametrize(
    "workload",
    [
        work(Clean, optimizer=lambda params: torch.optim.AdamW(params, lr=1e-3), clip_norm=1.0),
        pytest.param(work(CleanImages, images), marks=pytest.mark.slow),
    ],
)
def test_clean_workloads_have_no_finding_and_are_left_as_they_were(workload):
    context = context_of(workload, num_workers=1)
    model = context.training.model
    hooks = [len(module._forward_hooks) + len(module._forward_pre_hooks) for module in model.modules()]
    gradients = {name: item.requires_grad for name, item in model.named_parameters()}
    findings, failed = run_checks(context, CHECKS)
    assert (findings, failed) == ([], [])
    assert [len(module._forward_hooks) + len(module._forward_pre_hooks) for module in model.modules()] == hooks
    assert {name: item.requires_grad for name, item in model.named_parameters()} == gradients


def test_a_check_that_fails_hides_no_other():
    class Broken:
        @staticmethod
        def check(context):
            raise RuntimeError("no such thing")

    context = context_of(work(Clean))
    findings, failed = run_checks(context, {"broken_check": Broken, "cores": CHECKS["cores"]})
    assert findings == []
    assert failed == ["the check of broken check could not be made: RuntimeError: no such thing"]
