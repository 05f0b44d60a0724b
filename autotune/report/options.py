"""What can be tuned for a workload here: the table of `autotune options`."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from autotune.config import Config
from autotune.options import OPTIONS, Value
from autotune.options.space import Space
from autotune.report.text import plain, value_text


def print_options(console: Console, space: Space) -> None:
    """Print the options that apply here with their choices, then those that do not, with the reason."""
    console.print(options_table(space))
    console.print(plain(f"[today] is what the baseline uses; {_size(space.size())} together.", "dim"))
    apart = [name for name in OPTIONS if name not in space.choices]
    if apart:
        console.print(plain("\nDo not apply here:", "bold"))
        table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
        table.add_column(no_wrap=True)
        table.add_column(overflow="fold")
        for name in apart:
            table.add_row(plain(name), plain(space.reasons.get(name, "not asked for")))
        console.print(table)


def options_table(space: Space) -> Table:
    """Return the options of the space, a row each."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column("option", no_wrap=True)
    table.add_column("choices", overflow="fold", min_width=20)
    table.add_column("PyTorch", no_wrap=True)
    table.add_column("expert", no_wrap=True)
    table.add_column("what it is", overflow="fold", style="dim")
    expert = space.expert()
    for option in space.options():
        note = option.help
        if option.name in space.reasons:
            note += f"; fixed: {space.reasons[option.name]}"
        elif len(space.choices[option.name]) == 1:
            note += "; fixed"
        if option.changes_result:
            note += "; may change the training result"
        table.add_row(
            plain(option.name),
            _choices(space, option.name),
            plain(value_text(option.default)),
            plain(_value(expert, option.name)),
            plain(note),
        )
    return table


def _choices(space: Space, name: str) -> Text:
    """Return the choices with today's value marked."""
    today = space.baseline.get(name)
    values: list[Value] = list(space.choices[name])
    beside = today is not None and today not in values
    text = Text()
    for index, value in enumerate(values):
        text.append(" " if index else "")
        # true and 1 are equal to Python, and not to us
        text.append(*_marked(value, today is not None and value == today and type(value) is type(today)))
    if beside and today is not None:
        text.append("; beside them ")
        text.append(*_marked(today, True))
    return text


def _marked(value: Value, today: bool) -> tuple[str, str]:
    return (f"[{value_text(value)}]", "bold") if today else (value_text(value), "")


def _value(config: Config, name: str) -> str:
    return value_text(config[name]) if name in config else "-"


def _size(count: int) -> str:
    return "1 config" if count == 1 else f"{count:,} configs"
