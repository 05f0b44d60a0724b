from __future__ import annotations

from dataclasses import replace

from autotune.doctor.checks import limits
from autotune.doctor.findings import Gives
from tests.doctor.looking import Clean, context_of, found_by, work


def test_too_little_shared_memory_is_found():
    context = context_of(work(Clean), num_workers=2)
    context.machine = replace(context.machine, shm_free_bytes=1000)
    (finding,) = found_by("limits", context)
    assert finding.where == ("/dev/shm",)
    assert "6 batches" in finding.seen
    assert finding.gives is Gives.RESULT


def test_too_few_open_files_are_found(monkeypatch):
    monkeypatch.setattr(limits, "_open_files", lambda: 70)
    (finding,) = found_by("limits", context_of(work(Clean), num_workers=2))
    assert finding.where == ("ulimit -n",)
    assert "96 open files" in finding.seen


def test_enough_or_no_workers_is_none(monkeypatch):
    monkeypatch.setattr(limits, "_open_files", lambda: 1024)
    context = context_of(work(Clean), num_workers=2)
    context.machine = replace(context.machine, shm_free_bytes=1 << 30)
    assert found_by("limits", context) == []
    context = context_of(work(Clean))
    context.machine = replace(context.machine, shm_free_bytes=0)
    assert found_by("limits", context) == []


def test_the_limit_is_that_of_the_users_shell():
    assert 0 < limits._open_files() <= 1 << 30
