"""Where the memory goes, for people: tables, and one step as bars."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from autotune.doctor.memory.account import PARTS, Account, Fit, MemoryReport
from autotune.words.figures import memory, percent
from autotune.words.text import plain, values_text

STYLES = {
    "parameters": ("P", "blue"),
    "optimizer state": ("O", "magenta"),
    "gradients": ("G", "yellow"),
    "activations": ("A", "green"),
    "inputs": ("I", "cyan"),
    "workspace": ("W", "red"),
}
ROWS = 20  # of the plot
MARGIN = 24  # columns beside a bar


def print_memory(console: Console, found: MemoryReport, name: str) -> None:
    """Print the account, the step and the batch size that fits."""
    account = found.account
    values = {key: value for key, value in account.config.items() if isinstance(value, bool | int | str)}
    console.print(plain(f"{name} on {account.device} ({account.device_name}): {values_text(values)}", "bold"))
    for note in (*account.notes, *found.notes):
        console.print(plain(f"note: {note}", "yellow"))
    console.print()
    console.print(_parts(account))
    console.print()
    if account.modules:
        console.print(plain("Activations at the peak, by module", "bold"))
        console.print(_modules(account))
        console.print()
    console.print(plain("One step, downwards", "bold"))
    console.print(_legend(account))
    for row in _bars(account, max(20, console.width - MARGIN)):
        console.print(row, no_wrap=True, overflow="crop")
    if account.snapshot:
        console.print(plain(f"\ntorch's memory snapshot: {account.snapshot} (open it at pytorch.org/memory_viz)"))
    if found.fit is not None:
        console.print()
        for line in fit_lines(found.fit):
            console.print(plain(line))


def _parts(account: Account) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column()
    table.add_column(justify="right")
    table.add_column(justify="right", style="dim")
    total = max(1, account.needed)
    for part in sorted(PARTS, key=lambda part: -account.peak.parts.get(part, 0)):
        size = account.peak.parts.get(part, 0)
        table.add_row(plain(f"  {part}"), memory(size), percent(size / total))
    table.add_row(plain(f"tensors at their peak ({account.peak.phase})"), memory(account.peak.bytes), "", style="bold")
    beside = "beside them: libraries' workspace"
    if not account.accelerator:
        beside = "beside them: Python, libraries, allocator, loader workers"
    table.add_row(plain(f"  {beside}"), memory(account.unseen), percent(account.unseen / total))
    if account.accelerator:
        table.add_row(
            plain("  cached and fragmented"), memory(account.fragmentation), percent(account.fragmentation / total)
        )
    whole = "torch's allocator holds at most" if account.accelerator else "the process holds at most"
    table.add_row(plain(whole), memory(account.needed), "", style="bold")
    return table


def _modules(account: Account) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(justify="right")
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    for module in account.modules:
        table.add_row(f"  {memory(module.bytes)}", plain(module.kind), plain(module.place))
    return table


def _legend(account: Account) -> Text:
    text = Text("  ")
    for part in PARTS:
        letter, style = STYLES[part]
        if any(moment.parts.get(part) for moment in account.timeline):
            text.append(letter, style=style)
            text.append(f" {part.removesuffix(' state')}  ", style="dim")
    return text


def _bars(account: Account, width: int) -> list[Text]:
    """Return the rows of the plot: a letter stands for so many bytes, a row for the largest moment of a stretch."""
    top = max((moment.bytes for moment in account.timeline), default=0)
    rows, count = [], min(ROWS, len(account.timeline))
    for index in range(count):
        begin, end = (round(edge * len(account.timeline) / count) for edge in (index, index + 1))
        moment = max(account.timeline[begin:end], key=lambda one: one.bytes)
        row = Text(f"  {moment.phase:<9} ", style="dim")
        done, drawn = 0, 0
        for part in PARTS:
            done += moment.parts.get(part, 0)
            upto = round(width * done / top) if top else 0
            letter, style = STYLES[part]
            row.append(letter * (upto - drawn), style=style)
            drawn = upto
        row.append(f" {memory(moment.bytes)}", style="dim")
        rows.append(row)
    return rows


def fit_lines(fit: Fit) -> list[str]:
    """Return the batch size that fits, and how it was found, in sentences."""
    best = next(one for one in fit.tried if one.batch_size == fit.batch_size)
    measured = memory(best.needed or 0)
    lines = [
        f"Batch size {fit.batch_size} fits into {memory(fit.limit)}: it was run and took {measured}"
        + (f", {memory(best.predicted)} were predicted." if best.predicted is not None else ".")
    ]
    if fit.bound:
        lines.append(f"It is the largest: {fit.bound}.")
    if fit.sample_bytes > 0:
        lines.append(
            f"Near there the peak is {memory(max(0, round(fit.fixed_bytes)))} + {memory(round(fit.sample_bytes))} "
            "a sample."
        )
    for one in fit.tried:
        if one.batch_size > fit.batch_size:
            took = "ran out of memory" if one.needed is None else f"took {memory(one.needed)}"
            lines.append(f"Batch size {one.batch_size} was run, too, and {took}.")
    return lines
