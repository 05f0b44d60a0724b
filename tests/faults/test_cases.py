"""The table of cases is whole: each has tests that exist, or the reason why it can have none."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.faults.cases import PAGES, Case

TESTS = Path(__file__).parents[1]
IDS = {
    "faults": "A1 A2 A4 A5 A6 A7 A8 A9 A11 A12 A14 A16 A17 B1 B2 B3 B5 B6 B7 B9 B10 B13 C1 C2 C3 C5 C7 C10 "
    "D1 D2 D4 D6 D7 D9 D10 E1 E4 E7 E8 E10 F1 F2 F5 G1 G2 G3 G5 G6 H1 H3 H5 I1 I2 I3 I4",
    "users": "C01 C02 C03 C04 C06 C07 C09 C10 C11 C13 C15 C17 C18 C19 C21 C22 C23 C24 C26 C28 C29 C30 C32 C34 C35 "
    "C37 C38 C39 C40 C41 C43 C44 C47 C49 C51 C52 C54 C56 C58 C59 C61 C62 C64 C65 C67 C68 C70 C71 C73 C74 C76 C77 "
    "C79 C80 C82 C83 C85",
    "pitfalls": " ".join(f"P{number}" for number in range(1, 16)),
}
NAMED = re.compile(r"(?<=_)([a-i]\d{1,2})(?=_)")
"""IDs in the name of a test: test_c04_c2_a_worker_that_hangs"""
BESIDE = {"C20", "C45", "C5"}
"""IDs that tests name and no page asks for, beside those of the pages"""

ALL = [
    pytest.param(page, name, item, id=f"{page}-{name}") for page, cases in PAGES.items() for name, item in cases.items()
]


@cache
def parsed(file: Path) -> tuple[frozenset[str], frozenset[str]]:
    """Return the test functions that pytest collects from a file, and all of the file's strings."""
    tree = ast.parse(file.read_text(), str(file))
    functions = {
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_") and not skipped_always(node)
    }
    strings = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return frozenset(functions), frozenset(strings)


def skipped_always(function: ast.FunctionDef) -> bool:
    return any(
        ast.unparse(mark).startswith(("pytest.mark.skip(", "pytest.mark.xfail")) for mark in function.decorator_list
    )


def why_it_proves_nothing(item: Case) -> str:
    """Return what is wrong with a case of the table; nothing where all is well."""
    if bool(item.tests) == bool(item.reason):
        return "it needs tests, or a reason why there are none, and not both"
    for test in item.tests:
        file, _, function = test.partition("::")
        function, _, parameters = function.partition("[")
        path = TESTS / file
        if not path.is_file() or not path.name.startswith("test_"):
            return f"there is no file of tests {file}"
        functions, strings = parsed(path)
        if function not in functions:
            return f"{file} has no test {function}"
        if parameters and parameters.removesuffix("]") not in strings:
            return f"{file} has no parameters {parameters}"
    return ""


@pytest.mark.parametrize(("page", "name", "item"), ALL)
def test_every_case_is_proven_or_says_why_not(page: str, name: str, item: Case) -> None:
    assert item.title
    assert why_it_proves_nothing(item) == ""


@pytest.mark.parametrize("page", IDS)
def test_no_case_is_missing(page: str) -> None:
    assert list(PAGES[page]) == IDS[page].split()


def test_a_case_without_a_test_has_none_of_its_name() -> None:
    """A reason stands only where no test names the case, and a test names none that the table does not know."""
    files = sorted(TESTS.rglob("test_*.py"))
    named = {identity.upper() for file in files for test in parsed(file)[0] for identity in NAMED.findall(test)}
    reasons = {name for cases in PAGES.values() for name, item in cases.items() if item.reason}
    known = {name for cases in PAGES.values() for name in cases} | BESIDE
    assert named & reasons == set()
    assert {name for name in named if name not in known} == set()


@pytest.mark.parametrize(
    ("item", "wrong"),
    [
        (Case("neither"), "it needs tests"),
        (Case("both", ("faults/test_cases.py::test_no_case_is_missing",), "too hard"), "it needs tests"),
        (Case("no file", ("faults/test_nowhere.py::test_x",)), "no file of tests"),
        (Case("a helper", ("faults/cases/case.py::case",)), "no file of tests"),
        (Case("a name in a text alone", ("faults/test_cases.py::test_x",)), "has no test test_x"),
        (Case("no parameters", ("faults/test_cases.py::test_no_case_is_missing[no such" + " page]",)), "no parameters"),
        (Case("sound", ("faults/test_cases.py::test_no_case_is_missing[users]",)), ""),
    ],
    ids=lambda value: value.title if isinstance(value, Case) else "",
)
def test_the_table_is_really_looked_at(item: Case, wrong: str) -> None:
    found = why_it_proves_nothing(item)
    assert found.startswith(wrong) if wrong == "" or wrong == "it needs tests" else wrong in found
    assert bool(found) == bool(wrong)
