"""results/faults/run.py: every line of its table is made by tests that exist."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_fault_of_the_table_names_tests():
    spec = importlib.util.spec_from_file_location("faults_run", ROOT / "results/faults/run.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for fault in module.FAULTS:
        tree = ast.parse((ROOT / "tests/faults" / fault.file).read_text())
        functions = [item for item in tree.body if isinstance(item, ast.FunctionDef) and item.name.startswith("test")]
        named = [item for item in functions if fault.test.removeprefix("not ") in item.name]
        assert named, fault
        slow = ["mark.slow" in ast.unparse(mark) for item in named for mark in item.decorator_list]
        assert not fault.long or any(slow), fault
