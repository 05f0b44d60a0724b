"""Digits as far as the uncertainty supports them."""

from __future__ import annotations

import math

import pytest

from autotune.words.figures import duration, memory, percent, roughly, rounded, significant


@pytest.mark.parametrize(
    ("value", "half_width", "expected"),
    [
        (1260.05, 702, "1300"),
        (1260.05, 12, "1260"),
        (1260.05, 0.001, "1260"),  # four digits at most
        (0.031416, 0.0005, "0.0314"),
        (6076, 1010, "6000"),
        (1260, math.inf, "1000"),
        (1260, 5000, "1000"),
        (0, 1, "0"),
        (math.nan, 1, "?"),
        (math.inf, 1, "?"),
    ],
)
def test_one_unit_of_the_last_digit_is_within_the_half_width(value, half_width, expected):
    assert rounded(value, half_width) == expected


def test_significant_digits_without_powers_of_ten():
    assert [significant(value) for value in (0, 0.30618, 7.125, 1234.5)] == ["0", "0.306", "7.12", "1230"]


def test_percent():
    assert [percent(share) for share in (0.0207, 0.557, 0.0996, math.inf)] == ["2.1 %", "56 %", "10 %", "? %"]


def test_memory_names_its_unit():
    assert [memory(count) for count in (0, 306 << 20, 7 << 30)] == ["0 MiB", "306 MiB", "7.00 GiB"]


def test_duration_names_its_unit():
    found = [duration(seconds) for seconds in (0.031, 0.31, 42, 200, 7500, math.inf)]
    assert found == ["31 ms", "0.31 s", "42 s", "3 min 20 s", "2 h 5 min", "?"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (4.4, "4 s"),
        (43, "40 s"),
        (89, "90 s"),
        (91, "2 min"),
        (560, "9 min"),
        (5500, "1 h 30 min"),
        (7100, "2 h 0 min"),
        (float("inf"), "?"),
    ],
)
def test_guesses_are_no_finer_than_guesses(seconds, text):
    assert roughly(seconds) == text


def test_guessed_hours_have_less_than_sixty_minutes_and_are_near():
    for seconds in range(5400, 40_000, 10):
        hours, _, minutes, _ = roughly(seconds).split()
        assert int(minutes) < 60
        assert abs(int(hours) * 60 + int(minutes) - seconds / 60) <= 5.5
