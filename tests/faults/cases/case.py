"""What is known of one case."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """A fault with its proof: tests, or the reason why none can exist."""

    title: str
    tests: tuple[str, ...] = ()
    """path/of/test_file.py::test_function below tests/, with [id] where one set of parameters is meant"""
    reason: str = ""


def case(title: str, *tests: str) -> Case:
    return Case(title, tests)


def no_test(title: str, reason: str) -> Case:
    return Case(title, reason=reason)
