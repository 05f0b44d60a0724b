"""The doctor's diagnosis for people."""

from __future__ import annotations

import math

from rich.console import Console
from rich.table import Table
from rich.text import Text

from autotune.doctor.findings import SECTIONS, Basis, Ceilings, Diagnosis, Finding, Gives
from autotune.words.figures import duration, memory, percent, significant
from autotune.words.text import plain, values_text

TITLES = {
    Gives.SPEED: "Speed, by what it would gain",
    Gives.MEMORY: "Memory",
    Gives.RESULT: "May train wrongly",
    Gives.ACCELERATOR: "Costs nothing here, and time on an accelerator",
}
BOUND_BY = {
    "input": "its input: the step waits for the loader, or is slowed by it",
    "compute": "compute",
    "launches": "launches: starting so many small operations takes longer than computing them",
    "transfer": "copying batches to the accelerator",
}
WITHOUT_FIGURE = {
    Gives.SPEED: "could not be measured",
    Gives.MEMORY: "could not be measured",
    Gives.RESULT: "not a matter of time",
    Gives.ACCELERATOR: "no time on this device",
}
SHOWN_KINDS = 5
SHOWN_PLACES = 6
FAST = 1000.0  # a ceiling so many times above the step is none


def print_diagnosis(console: Console, found: Diagnosis, name: str) -> None:
    """Print the ceilings, then the findings."""
    values = {key: value for key, value in found.config.items() if isinstance(value, bool | int | str)}
    head = f"{name} on {found.device} ({found.device_name}, {found.cores:g} cores): {values_text(values)}"
    console.print(plain(head, "bold"))
    console.print(plain(_step(found.ceilings)))
    console.print(_ceilings(found.ceilings))
    for note in found.notes:
        console.print(plain(f"note: {note}", "yellow"))
    console.print()
    if not found.findings:
        console.print(plain("Nothing found that would gain more than it is worth. What is left are the options:"))
        console.print(plain("autotune search measures those."))
        return
    number = 0
    for section in SECTIONS:
        findings = [finding for finding in found.findings if finding.gives is section]
        if findings:
            console.print(plain(TITLES[section], "bold"))
        for finding in findings:
            number += 1
            console.print(_finding(number, finding))
            console.print()


def _step(ceilings: Ceilings) -> str:
    parts = [
        f"{duration(ceilings.wait_s)} waiting for data",
        f"{duration(ceilings.compute_s)} compute",
        f"{duration(ceilings.contention_s)} {'contention with the loader' if ceilings.workers else 'disturbance'}",
    ]
    return (
        f"A step takes {duration(ceilings.step_s)} ({significant(ceilings.samples_per_s)} samples/s): "
        f"{', '.join(parts)}. It is bound by {BOUND_BY.get(ceilings.bound_by, ceilings.bound_by)}."
    )


def _ceilings(ceilings: Ceilings) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, style="dim")
    table.add_column(overflow="fold")
    for name, text in _rows(ceilings):
        table.add_row(plain(f"  {name}"), plain(text))
    return table


def _rows(ceilings: Ceilings) -> list[tuple[str, str]]:
    rows = [
        ("if loading were free", _ceiling(ceilings.free_loading_samples_per_s, ceilings)),
        ("if compute were free", _ceiling(ceilings.free_compute_samples_per_s, ceilings)),
    ]
    if ceilings.loaders:
        rates = [f"{significant(rate.samples_per_s)} with {rate.workers}" for rate in ceilings.loaders]
        rows.append(("loader alone", f"samples/s by workers: {', '.join(rates)}"))
    if ceilings.transfer_s is not None:
        rows.append(("transfer alone", f"{duration(ceilings.transfer_s)} a batch"))
    launches = f"{ceilings.operations} operations, {duration(ceilings.launch_s)} to start them"
    rows.append(("operations a step", launches))
    if ceilings.kinds:
        kinds = sorted(ceilings.kinds.items(), key=lambda item: -item[1])[:SHOWN_KINDS]
        rows.append(("compute by kind", ", ".join(f"{name} {percent(share)}" for name, share in kinds)))
    share = ceilings.machine_share
    if share is not None and ceilings.flops_per_sample and ceilings.matmul_flops:
        reached = f"{percent(share)} of the {significant(ceilings.matmul_flops / 1e9)} GFLOP/s"
        text = f"{reached} of a matrix product here in {ceilings.precision}"
        if share > 1 and "convolution" in ceilings.kinds:
            text += "; convolutions take fewer operations than are counted"
        rows.append(("machine", f"{_flops(ceilings.flops_per_sample)} a sample: {text}"))
    return rows


def _flops(count: float) -> str:
    """Return floating-point operations as "848 FLOP" or "20.0 MFLOP"."""
    for unit, name in ((1e9, "GFLOP"), (1e6, "MFLOP"), (1e3, "kFLOP")):
        if count >= unit:
            return f"{significant(count / unit)} {name}"
    return f"{significant(count)} FLOP"


def _ceiling(samples_per_s: float, ceilings: Ceilings) -> str:
    ratio = samples_per_s / ceilings.samples_per_s
    if not math.isfinite(samples_per_s) or ratio > FAST:
        return f"more than {FAST:g}x as fast"
    return f"{significant(samples_per_s)} samples/s ({ratio:.2f}x)"


def _finding(number: int, finding: Finding) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row(Text(f"{number:>2}."), plain(finding.seen, "bold"))
    places = finding.where[:SHOWN_PLACES]
    more = len(finding.where) - len(places)
    where = ", ".join(places) + (f" and {more} more" if more else "")
    table.add_row(Text("    where", style="dim"), plain(where))
    for index, line in enumerate(finding.remedy):
        table.add_row(Text("    do" if index == 0 else "", style="dim"), plain(line))
    table.add_row(Text("    gain", style="dim"), plain(f"{gain_text(finding)}; {finding.sure}"))
    if finding.why:
        table.add_row(Text("    why", style="dim"), plain(finding.why))
    return table


def gain_text(finding: Finding) -> str:
    """Return what a finding would gain, and whether that was measured."""
    gain, parts = finding.gain, []
    if gain.share:
        figure = f"{percent(gain.share)} of the step's time ({gain.speedup:.2f}x)"
        if gain.basis is Basis.BOUND:
            parts.append(f"at most {figure}, by its share")
        else:
            within = "" if gain.half_width is None else f", within ± {percent(gain.half_width)}"
            parts.append(f"{figure}, measured with and without{within}")
    if gain.saved_bytes:
        parts.append(f"{memory(gain.saved_bytes)} of memory")
    if not parts:
        return WITHOUT_FIGURE[finding.gives]
    return " and ".join(parts)
