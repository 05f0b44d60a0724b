"""`autotune explain`: what the models believe, as tables."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.table import Table

from autotune.report.rows import differs_from
from autotune.report.run import Run
from autotune.words.figures import memory, percent, significant
from autotune.words.text import plain, value_text, values_text

if TYPE_CHECKING:
    from autotune.search.explain import Expected, Explanation, ValueEffect


def print_explanation(console: Console, run: Run, found: Explanation) -> None:
    """Print what an option is believed to do, the memory line, and what is expected against what was measured."""
    console.print(plain("Believed from the trials so far: a model's figures, not measurements.", "bold"))
    console.print()
    console.print(_effects(found))
    if found.memory:
        console.print()
        console.print(
            plain(f"Peak memory by batch size, other options as in the best config; limit {memory(found.limit_bytes)}")
        )
        console.print(_memory(found))
    console.print()
    _print_expected(console, run, "best measured, smoothed by the model", found.best_measured)
    if found.best_expected is None:
        console.print(plain("every config that likely fits and runs was measured"))
    else:
        _print_expected(console, run, "best expected of the rest", found.best_expected)


def _effects(found: Explanation) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    table.add_column("option", overflow="fold")
    table.add_column("value", overflow="fold")  # names modules, for some options
    table.add_column("time per sample\nagainst the best config", no_wrap=True)
    previous = ""
    for item in found.effects:
        name = item.option if item.option != previous else ""
        table.add_row(
            plain(name), plain(value_text(item.value), "bold" if item.in_best else ""), plain(effect_words(item))
        )
        previous = item.option
    return table


def effect_words(item: ValueEffect) -> str:
    """Return what a value is believed to do: "1.21x (1.05 to 1.4)", twice the standard deviation each way."""
    if item.in_best:
        return "in the best config"
    low, high = (item.ratio * math.exp(sign * 2 * item.spread) for sign in (-1, 1))
    return f"{significant(item.ratio)}x ({significant(low)} to {significant(high)})"


def _memory(found: Explanation) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for title in ("batch size", "believed", "measured", "fits"):
        table.add_column(title, justify="right", no_wrap=True)
    for item in found.memory:
        measured = "" if item.measured_bytes is None else memory(item.measured_bytes)
        table.add_row(
            plain(str(item.batch_size)), plain(memory(item.peak_bytes)), plain(measured), plain(percent(item.fits))
        )
    return table


def _print_expected(console: Console, run: Run, title: str, item: Expected) -> None:
    spread = f" (to a factor of {significant(math.exp(2 * item.spread))})" if item.spread else ""
    differs = values_text(differs_from(item.config, run.baseline)) or "the baseline"
    console.print(plain(f"{title}: {significant(1 / item.sample_s)} samples/s{spread}: {differs}"))
