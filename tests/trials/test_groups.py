"""What is taken out of shared memory after a trial, and what is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotune.trials import groups


def test_only_what_the_named_processes_made_is_removed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    mine = {"torch_41_3735928559_0", "sem.autotune-41-x3a_b", "torch_42_1_17"}
    others = {"torch_411_1_0", "torch_4_1_0", "sem.mp-41", "autotune-41", "torch_41", "psm_41_1", "sem.autotune-4-1"}
    for name in mine | others:
        (tmp_path / name).touch()
    (tmp_path / "torch_42_2_0").mkdir()  # not ours to remove, whatever it is
    monkeypatch.setattr(groups, "SHARED_MEMORY", tmp_path)
    groups.remove_shared_memory({41, 42})
    assert {path.name for path in tmp_path.iterdir()} == {*others, "torch_42_2_0"}


def test_a_machine_without_shared_memory_has_none_to_remove(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(groups, "SHARED_MEMORY", tmp_path / "none")
    groups.remove_shared_memory({1})
