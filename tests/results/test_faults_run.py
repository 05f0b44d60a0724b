"""results/faults/run.py: every line of its table is made by tests that exist."""

from __future__ import annotations

import ast
import importlib
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_fault_of_the_table_names_tests(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "results/faults"))
    monkeypatch.delitem(sys.modules, "run", raising=False)
    for fault in importlib.import_module("run").FAULTS:
        tree = ast.parse((ROOT / "tests/faults" / fault.file).read_text())
        functions = [item for item in tree.body if isinstance(item, ast.FunctionDef) and item.name.startswith("test")]
        named = [item for item in functions if fault.test.removeprefix("not ") in item.name]
        assert named, fault
        slow = ["mark.slow" in ast.unparse(mark) for item in named for mark in item.decorator_list]
        assert not fault.long or any(slow), fault
