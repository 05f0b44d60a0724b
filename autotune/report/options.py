"""What can be tuned for a workload here: the table of `autotune options`."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from autotune.config import Config
from autotune.options import OPTIONS, Value
from autotune.options.space import Space
from autotune.words.text import plain, value_text

HELP_WIDTH = 110  # of a terminal that has room for what each option is


def print_options(console: Console, space: Space) -> None:
    """Print the options that apply here with their choices, then those that do not, with the reason."""
    console.print(options_table(space, console.width >= HELP_WIDTH))
    console.print(plain(f"[today]: what the baseline uses. {_size(space.size())} together.", "dim"))
    if any(option.changes_result for option in space.options()):
        console.print(plain("* may change the training result.", "dim"))
    _print_reasons(console, "Fixed:", _fixed(space))
    whole = space.context.effective_batch
    follow = {name: f"from {by}: together they make {whole} samples a step" for name, by in space.decided.items()}
    _print_reasons(console, "Follow from others:", follow)
    named = {*space.choices, *space.decided}
    apart = {name: space.reasons.get(name, "not asked for") for name in OPTIONS if name not in named}
    _print_reasons(console, "Do not apply here:", apart)


def options_table(space: Space, with_help: bool = True) -> Table:
    """Return the options of the space, a row each."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    table.add_column("option", no_wrap=True)
    table.add_column("choices", overflow="fold")
    table.add_column("PyTorch", no_wrap=True)
    table.add_column("expert", overflow="fold")  # names modules, for some options
    if with_help:
        table.add_column("what it is", overflow="fold", style="dim")
    expert = space.expert()
    for option in space.options():
        cells = [
            plain(option.name + ("*" if option.changes_result else "")),
            _choices(space, option.name),
            plain(value_text(option.default)),
            plain(_value(expert, option.name)),
        ]
        table.add_row(*cells, *([plain(option.help)] if with_help else []))
    return table


def _fixed(space: Space) -> dict[str, str]:
    """Return why options of the space have one choice."""
    single = [name for name, values in space.choices.items() if len(values) == 1]
    return {name: space.reasons.get(name, "by the command line, or there is no other choice") for name in single}


def _print_reasons(console: Console, title: str, reasons: dict[str, str]) -> None:
    if not reasons:
        return
    console.print()
    console.print(plain(title, "bold"))
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, reason in reasons.items():
        table.add_row(plain(name), plain(reason))
    console.print(table)


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
