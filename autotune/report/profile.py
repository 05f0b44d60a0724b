"""The heaviest operations, before and after, for people."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from autotune.doctor.profile.data import Profile, Profiles
from autotune.words.figures import duration, memory, percent, significant
from autotune.words.text import plain, values_text

SHOWN = 10


def print_profiles(console: Console, found: Profiles, name: str) -> None:
    """Print both states, the table and where the traces lie."""
    before, after = found.before, found.after
    console.print(plain(f"{name} on {before.device} ({before.device_name})", "bold"))
    states = [("before", before)] if after is None else [("before", before), ("after", after)]
    for title, one in states:
        console.print(plain(f"{title if after else 'today'}: {_state(one)}"))
    console.print()
    console.print(_table(found))
    console.print()
    for _, one in states:
        console.print(plain(f"trace of {one.steps} steps: {one.trace} ({memory(one.trace_bytes)})"))
    console.print(plain("Open a trace at ui.perfetto.dev."))


def _state(one: Profile) -> str:
    values = {key: value for key, value in one.config.items() if isinstance(value, bool | int | str)}
    rate = significant(one.samples_per_step / one.step_s)
    return f"{values_text(values)}; a step takes about {duration(one.step_s)} ({rate} samples/s)"


def _table(found: Profiles) -> Table:
    before, after = found.before, found.after
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("operation", overflow="fold")
    titles = ["share", "a sample"] if after is None else ["share before", "after", "a sample before", "after"]
    for title in titles:
        table.add_column(title, justify="right", no_wrap=True)
    for name in found.heaviest(SHOWN):
        profiles = [one for one in (before, after) if one is not None]
        shares = [percent(one.share(name)) if one.share(name) else "-" for one in profiles]
        table.add_row(plain(name.removeprefix("aten::")), *shares, *(_per_sample(one, name) for one in profiles))
    return table


def _per_sample(one: Profile, name: str) -> str:
    seconds = next((item.seconds for item in one.operations if item.name == name), 0.0) / one.samples_per_step
    if not seconds:
        return "-"
    return f"{significant(1e6 * seconds)} us" if seconds < 1e-3 else duration(seconds)
