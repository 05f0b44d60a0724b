"""The outcome of a search in words and figures, for the terminal and for the page: what changes, before and after."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from autotune.config import Config
from autotune.options import OPTIONS
from autotune.report.columns import OUTCOMES
from autotune.report.rows import Row
from autotune.words.figures import memory, percent, rounded
from autotune.words.text import value_text

NO_EFFECT = "no effect"


@dataclass(frozen=True, kw_only=True)
class Change:
    """One option that a config sets otherwise than the baseline, its values in words."""

    option: str
    before: str
    after: str


def changes(config: Config, baseline: Config) -> list[Change]:
    """Return what a config changes, in the registry's order."""
    return [
        Change(option=name, before=_shown(baseline, name), after=_shown(config, name))
        for name in config.difference(baseline)
    ]


def _shown(config: Config, name: str) -> str:
    inert = name not in config and OPTIONS[name].needs is not None
    return NO_EFFECT if inert else value_text(config.value(name))


def samples_per_s(row: Row) -> str:
    return "" if row.samples_per_s is None else rounded(row.samples_per_s, row.samples_per_s * (row.uncertainty or 0.0))


def step_ms(row: Row) -> str:
    return "" if row.step_s is None else rounded(1e3 * row.step_s, 1e3 * row.step_s * (row.uncertainty or 0.0))


def before_and_after(before: Row | None, after: Row) -> Iterator[tuple[str, str, str]]:
    """Yield the search's figures of the baseline and of a config: title, before, after."""
    for title, cell in (
        ("samples/s", samples_per_s),
        ("±", lambda row: "" if row.uncertainty is None else percent(row.uncertainty)),
        ("step ms", step_ms),
        ("peak memory", lambda row: "" if row.peak_bytes is None else memory(row.peak_bytes)),
        ("runs", lambda row: str(row.runs)),
    ):
        yield title, "" if before is None else cell(before), cell(after)


def row_of(rows: Sequence[Row], config: Config) -> Row | None:
    """Return the measured row of a config; options that neither sets have PyTorch's default."""
    same = (row for row in rows if row.measured and not row.config.difference(config))
    return next(same, None)


def nothing_measured(rows: Sequence[Row]) -> str:
    """Return why a search has no config to hand back."""
    return f"No config was measured within the limits: {how_they_ended(rows) or 'no trial was run'}."


def how_they_ended(rows: Iterable[Row]) -> str:
    """Return how many configs that have no rank ended how: "2 timeout, 1 over the limit"."""
    counts = Counter("over the limit" if row.measured else OUTCOMES[row.outcome] for row in rows)
    return ", ".join(f"{count} {name}" for name, count in counts.items())
