"""`autotune options` without a script: pages of options."""

from __future__ import annotations

import pytest

from autotune.cli.parsing import parse_choices
from autotune.options import OPTIONS


def test_the_page_of_one_option(run):
    ended = run("options", "precision", "--markdown")
    assert ended.status == 0, ended.err
    assert ended.out.startswith("## precision\n")
    assert "precision" in run("options", "precision").out


def test_the_pages_of_all(run):
    out = run("options", "--all", "--markdown").out
    assert all(f"## {name}\n" in out for name in OPTIONS)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["precison"], "Did you mean precision?"), (["nowhere.py"], "nowhere.py")],
)
def test_neither_an_option_nor_a_script(run, arguments, message):
    ended = run("options", *arguments)
    ended.check_clear()
    assert message in ended.message


def test_markdown_is_for_pages(run, write):
    script = write("x = 1")
    ended = run("options", script, "--markdown")
    ended.check_clear()
    assert "--markdown is for pages" in ended.message


def test_choices_of_an_option_are_joined():
    given = ["num_workers=0", "precision=bf16", "num_workers=2,4"]
    assert parse_choices(given) == {"num_workers": [0, 2, 4], "precision": ["bf16"]}
