"""What was seen of a workload while it ran for a few steps: the first part of `autotune inspect`."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.table import Table

from autotune.facts import Facts
from autotune.options import OPTIONS
from autotune.words.text import plain


def print_found(console: Console, facts: Facts) -> None:
    """Print loader, model, optimizer, step and batches, and what the script sets itself."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in found_lines(facts):
        table.add_row(plain(name, "bold"), plain(text))
    console.print(table)
    console.print()


def found_lines(facts: Facts) -> Iterator[tuple[str, str]]:
    """Yield what was found, with its title."""
    way = "run as it is: no workload in it" if facts.script else "by the factories of its workload"
    yield "script", way
    yield "model", f"{facts.model}, {facts.parameters:,} parameters, {facts.trainable_parameters:,} of them trainable"
    yield "optimizer", facts.optimizer or "none of torch's"
    yield "data", _data(facts)
    yield "batch", facts.batch_structure
    yield "step", facts.step
    yield "device", facts.device_name
    yield "sets itself", "; ".join(_own_settings(facts)) or "nothing that an option would change"


def _data(facts: Facts) -> str:
    if facts.script is not None and facts.script.loader is None:
        by_itself = "" if facts.script.no_loader else "made by the script itself; "  # else the step's line says why
        return by_itself + facts.script.size_of_step
    size = facts.baseline.get("batch_size")
    length = "an unknown number of" if facts.dataset_length is None else f"{facts.dataset_length:,}"
    words = f"{length} samples an epoch, batch size {size}"
    workers = facts.baseline.get("num_workers")
    if workers is not None:
        words += f", {workers} loader workers"
    if facts.script is not None:
        words += f", loader made at {facts.script.made_at or 'a place in a library'}"
    return words


def _own_settings(facts: Facts) -> Iterator[str]:
    if facts.own_autocast:
        yield "autocast"
    if facts.own_scaler:
        yield "a gradient scaler"
    if facts.compiled:
        yield "torch.compile"
    if facts.deterministic:
        yield "deterministic algorithms"
    if facts.script is not None and facts.script.batches_per_update > 1:
        yield f"gradients are accumulated over {facts.script.batches_per_update} batches"
    yield from (f"{name}: {reason}" for name, reason in facts.refused.items() if name in OPTIONS)
