"""Text of users and their programs is shown as it is, and never acts on the terminal."""

from __future__ import annotations

from autotune.words.text import clean, plain, sparkline, values_text
from tests.report.factory import console_of, text_of


def test_escapes_and_control_characters_are_removed():
    assert clean("a\x1b[31mred\x1b[0m\x1b]0;title\x07 b\x07\r\x08\tc\nd\x9b1m") == "ared b\tc\nd1m"


def test_brackets_are_no_markup():
    console = console_of(80)
    console.print(plain("[red]index[0][/] [link=x]"))
    assert text_of(console) == "[red]index[0][/] [link=x]\n"


def test_values_are_spelled_as_in_toml():
    assert values_text({"pin_memory": True, "precision": "bf16"}) == "pin_memory=true, precision=bf16"


def test_sparkline():
    assert sparkline([1.0, 2.0, 3.0]) == "▁▅█"
    assert sparkline([1.0, 1.001, 1.0]) == "▄▄▄"
    assert sparkline([]) == ""
    assert len(sparkline(list(range(1, 100)), width=10)) == 10
    assert sparkline([1.0, 2.0], ascii_only=True).isascii()
