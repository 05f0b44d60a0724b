"""One page an option, made from its module."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from autotune.options import OPTIONS, Inapplicable, Maths
from autotune.report.option_page import CLAIMS, all_pages, examples, option_page
from autotune.words.text import value_text

README = Path(__file__).parents[2] / "README.md"


@pytest.mark.parametrize("option", OPTIONS.values(), ids=list(OPTIONS))
def test_a_page_says_what_the_module_says(option):
    page = option_page(option)
    assert page.startswith(f"## {option.name}\n")
    assert f"PyTorch's default: `{value_text(option.default)}`" in page
    assert CLAIMS[option.claim] in page
    assert ("may change the result" in page) is option.changes_result
    assert (f"--allow {option.name}" in page) is option.opt_in
    for context in examples().values():
        found = option.choices(context)
        told = found.reason if isinstance(found, Inapplicable) else f"`{value_text(found[-1])}`"
        assert told in page
    for snippet in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        if "autotune export writes it whole" not in snippet:
            ast.parse(snippet)


def test_conditions_are_those_of_the_source():
    page = option_page(OPTIONS["precision"])
    assert "- the model or step already enters torch.autocast itself" in page


def test_every_claim_has_its_words():
    assert set(CLAIMS) == set(Maths)


def test_all_pages_in_order():
    assert re.findall(r"^## (\w+)$", all_pages(), re.MULTILINE) == list(OPTIONS)


def test_the_readmes_table_has_every_option_in_order():
    text = README.read_text(encoding="utf-8")
    table = text[text.index("| option |") :].partition("\n\n")[0]
    named = [name for row in table.splitlines()[2:] for name in re.findall(r"`(\w+)`", row.split("|")[1])]
    assert named == list(OPTIONS)
