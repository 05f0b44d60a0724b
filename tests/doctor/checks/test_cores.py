from __future__ import annotations

from dataclasses import replace

import pytest

from autotune.doctor.findings import Gives
from tests.doctor.looking import Clean, context_of, found_by, work


def crowded(contention, **config):
    context = context_of(work(Clean), **config)
    context.machine = replace(context.machine, usable_cores=2.0)
    context.ceilings = replace(context.ceilings, step_s=1.0, wait_s=0.0, compute_s=1.0 - contention)
    return context


def test_more_processes_than_cores_are_found_where_they_cost_time():
    (finding,) = found_by("cores", crowded(0.3, num_workers=2))
    assert "2 loader workers" in finding.seen
    assert finding.gives is Gives.SPEED
    assert finding.gain.share == pytest.approx(0.3)


def test_a_quota_that_stops_the_process_is_found():
    context = crowded(0.0)
    context.session.flag("cpu_quota_throttled")
    (finding,) = found_by("cores", context)
    assert "quota" in finding.seen


def test_without_contention_or_without_workers_there_is_none():
    assert found_by("cores", crowded(0.01, num_workers=2)) == []
    assert found_by("cores", crowded(0.3)) == []


def test_what_other_programs_cost_is_not_the_loaders():
    context = crowded(0.3, num_workers=2)
    context.session.flag("cpu_contended")
    assert found_by("cores", context) == []
