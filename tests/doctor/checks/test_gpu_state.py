from __future__ import annotations

from autotune.doctor.checks.gpu_state import findings
from tests.doctor.looking import Clean, context_of, found_by, work


def test_another_process_and_throttling_are_found():
    context = context_of(work(Clean))
    found = list(findings(context, ("gpu_shared", "gpu_throttled")))
    assert ["another process" in found[0].seen, "clocks" in found[1].seen] == [True, True]


def test_a_power_cap_and_the_processor_are_none():
    context = context_of(work(Clean))
    assert list(findings(context, ("power_capped",))) == []
    assert found_by("gpu_state", context) == []
