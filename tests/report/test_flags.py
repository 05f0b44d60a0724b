"""Every flag that the code can set is explained in words."""

from __future__ import annotations

import ast
from pathlib import Path

import autotune
from autotune.report.flags import FLAGS, NO_WARNING, explain, in_order, letters

ROOT = Path(autotune.__file__).parent


def _flags_set_in(path: Path) -> set[str]:
    """Return the literals that are passed to `x.flag(...)`, `flags.append(...)` and `_flags.add(...)`."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            name = node.func.attr
            target = ast.unparse(node.func.value)
            if name == "flag" or (name in ("append", "add") and "flags" in target):
                found |= {
                    part.value
                    for argument in node.args
                    for part in ast.walk(argument)
                    if isinstance(part, ast.Constant) and isinstance(part.value, str)
                }
    return found


def test_every_flag_of_the_code_is_explained():
    paths = [path for part in ("measure", "trials", "search") for path in (ROOT / part).rglob("*.py")]
    found = set().union(*map(_flags_set_in, paths))
    assert len(found) > 10
    assert found <= set(FLAGS)


def test_an_explanation_is_one_line():
    assert all(text and "\n" not in text and len(text) < 110 for text in FLAGS.values())
    assert set(FLAGS) >= NO_WARNING


def test_a_flag_of_a_newer_version_speaks_for_itself():
    assert explain("too_hot") == "too hot"
    assert in_order(["too_hot", "bursty", "noisy", "bursty"]) == ["noisy", "bursty", "too_hot"]


def test_letters_are_distinct():
    assert letters(["bursty", "noisy"]) == {"noisy": "a", "bursty": "b"}
    assert len(set(letters(FLAGS).values())) == min(len(FLAGS), 26)
