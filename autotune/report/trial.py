"""One trial in full: `autotune show RUN TRIAL`."""

from __future__ import annotations

import dataclasses

from rich.console import Console
from rich.table import Table

from autotune.config import Config
from autotune.records import Measurement, Peaks, TrialRecord
from autotune.report.columns import OUTCOMES
from autotune.report.flags import explain, in_order
from autotune.report.numerics import comparison_lines, numerics_lines
from autotune.report.rows import data_share, differs_from, limit_bytes
from autotune.report.run import Run
from autotune.report.table import THROUGHPUT_ONLY
from autotune.words.figures import duration, memory, percent, rounded, significant
from autotune.words.text import plain, sparkline, values_text

Line = tuple[str, str]
"""a label and what belongs to it"""

PHASES = {
    "import_s": "import",
    "build_s": "build",
    "cache_s": "cache",
    "first_batch_s": "first batch",
    "first_step_s": "first step",
    "warmup_s": "warm-up",
    "drain_s": "drain",
    "window_s": "window",
    "cached_s": "cached compute",
    "memory_s": "memory",
    "epoch_s": "epoch restart",
    "total_s": "in all",
}
"""fields of `Phases` in words"""

PEAKS = {
    "host": "host",
    "tree_pss": "host, PSS (sampled)",
    "allocated": "device, allocated",
    "reserved": "device, reserved",
    "process": "device, process (sampled)",
    "outside_torch": "device, outside torch (sampled)",
}
"""fields of `Peaks` in words"""


def print_trial(console: Console, run: Run, number: int) -> None:
    """Print everything that is known of one trial.

    Raises:
        RunFolderError: the run has no trial of that number.
    """
    record = run.record(number)
    found = record.measurement
    kind = "" if record.kind == "trial" else f" ({record.kind})"
    console.print(plain(f"trial {number}{kind}: {OUTCOMES[record.outcome]}", "bold"))
    _print_lines(console, "", _config_lines(run, record))
    if found is not None:
        _print_lines(console, "time, within this one run", _time_lines(found, console.options.ascii_only))
        _print_lines(console, "a step is made of", _step_lines(found))
        _print_lines(console, "peak memory", _memory_lines(found, run))
        _print_lines(console, "flags", [(flag, explain(flag)) for flag in in_order(found.flags)])
    if record.numerics is not None:
        _print_lines(console, "numerics guard", list(numerics_lines(record.numerics)))
        for comparison in record.numerics.comparisons:
            title = f"claimed to be {comparison.claim}"
            _print_lines(console, title, list(comparison_lines(comparison)))
    _print_lines(console, "phases", _phase_lines(record))
    if record.failure is not None:
        _print_failure(console, record)
    console.print()
    if found is not None:
        console.print(plain(THROUGHPUT_ONLY, "dim"))
    console.print(plain(f"log: {run.folder.log(number)}", "dim"), soft_wrap=True)


def _print_lines(console: Console, title: str, lines: list[Line]) -> None:
    if not lines:
        return
    if title:
        console.print()
        console.print(plain(title, "bold"))
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for label, text in lines:
        table.add_row(plain(f"  {label}"), plain(text))
    console.print(table)


def _config_lines(run: Run, record: TrialRecord) -> list[Line]:
    config = Config(**record.config)
    differs = differs_from(config, run.baseline)
    return [
        ("config", values_text(config) or "PyTorch's defaults"),
        ("differs from the baseline", values_text(differs) or "in nothing"),
        *([("the baseline has", values_text({name: run.baseline.value(name) for name in differs}))] if differs else []),
    ]


def _time_lines(found: Measurement, ascii_only: bool) -> list[Line]:
    half = found.uncertainty
    blocks = [block.wall_s / block.samples for block in found.blocks]
    lines = [
        ("samples/s", f"{rounded(found.samples_per_s, found.samples_per_s * half)} (±{percent(half)} within the run)"),
        ("step", f"{_ms(found.step_s, half)}, mean {_ms(found.mean_step_s, half)}, p95 {_ms(found.p95_step_s, half)}"),
    ]
    if found.tokens_per_sample is not None:
        tokens = found.tokens_per_sample * found.samples_per_s
        lines.insert(1, ("tokens/s", rounded(tokens, tokens * half)))
    if blocks:
        steps = found.blocks[0].steps
        dropped = f", the first {found.kept_from} dropped as warm-up" if found.kept_from else ""
        lines.append(("blocks", f"{len(blocks)} of {steps} {'step' if steps == 1 else 'steps'}{dropped}"))
        lines.append(("time of blocks", sparkline(blocks, width=64, ascii_only=ascii_only)))
        lines.append(("", f"{_ms(min(blocks), 0.01)} to {_ms(max(blocks), 0.01)} a sample"))
    if found.unmet:
        lines.append(("ended before", found.unmet))
    per_epoch = "" if found.steps_per_epoch is None else f", an epoch has {found.steps_per_epoch} steps"
    estimated = ", estimated" if found.epoch_overhead_estimated else ""
    lines.append(("epoch restart", f"{duration(found.epoch_overhead_s)}{estimated}{per_epoch}"))
    if found.cache_bytes:
        kept = f"{memory(found.cache_bytes)}, filled in the first epoch: once {duration(found.cache_fill_s)}, expected"
        lines.append(("kept samples", kept))
    lines.append(("start", f"{duration(found.start_s)} until training ran at its pace{_spread_over(found)}"))
    lines += _compile_lines(found)
    lines.append(("losses", " ".join(f"{loss:.4g}" for loss in found.losses) or "none"))
    lines.append(("optimizer updates", f"{found.updates} before the window"))
    return lines


def _spread_over(found: Measurement) -> str:
    planned = found.planned_samples
    return "" if planned is None else f"; in the times, spread over the {planned:,} samples planned"


def _compile_lines(found: Measurement) -> list[Line]:
    done = found.compilation
    if done is None:
        return []
    again = f", {done.recompilations} of them after the first step" if done.recompilations else ""
    cached = "; a part came from the cache of this search, and a first run takes longer" if done.cached else ""
    graphs = "1 graph" if done.graphs == 1 else f"{done.graphs} graphs"
    return [("compiling", f"{duration(done.seconds)} for {graphs}{again}{cached}")]


def _step_lines(found: Measurement) -> list[Line]:
    share, bound = data_share(found)
    lines = [("wait for data", _part(found.wait_s, found))]
    if found.compute_s is None:
        lines.append(("compute", "not measured"))
    else:
        lines.append(("compute", f"{_part(found.compute_s, found)}, on batches that are there, with the loader idle"))
    if found.contention_s is not None:
        left = f"{_part(found.contention_s, found)}, what the two leave over"
        lines.append(("contention", left if found.contention_s > 0 else "none seen: the two leave nothing over"))
    if found.loader_s is not None:
        lines.append(("loader alone", f"{_ms(found.loader_s, found.uncertainty)} a batch"))
    if bound:
        lines.append(("", f"input-bound: {percent(share)} of the step is data stall (differential)"))
    return lines


def _memory_lines(found: Measurement, run: Run) -> list[Line]:
    limit = limit_bytes(run.info.limits, run.accelerator)
    allowed = "" if limit is None else f" of the {memory(limit)} that it may use"
    lines = [("needed", memory(found.lifetime.needed(run.accelerator)) + allowed)]
    for field in dataclasses.fields(Peaks):
        life, steady = getattr(found.lifetime, field.name), getattr(found.steady, field.name)
        if life or steady:
            after = f", {memory(steady)} after warm-up" if steady else ""
            lines.append((PEAKS.get(field.name, field.name), f"{memory(life)} over its life{after}"))
    return lines


def _phase_lines(record: TrialRecord) -> list[Line]:
    seconds = dataclasses.asdict(record.phases)
    lines = [(title, duration(seconds[name])) for name, title in PHASES.items() if seconds[name] > 0]
    return [*lines, ("seen from outside", duration(record.wall_s))] if record.wall_s else lines


def _print_failure(console: Console, record: TrialRecord) -> None:
    """Print why it yields nothing: the message with its advice, then the user's own traceback, line by line."""
    failure = record.failure
    assert failure is not None
    console.print()
    phase = f" (in the phase: {failure.phase})" if failure.phase else ""
    console.print(plain(f"{failure.reason}{phase}", "bold red"))
    if failure.message and failure.message != failure.reason:
        console.print(plain(failure.message.rstrip()))
    if failure.traceback:
        console.print()
        for line in failure.traceback.rstrip().splitlines():
            console.print(plain(line, "dim"), soft_wrap=True)


def _part(seconds: float, found: Measurement) -> str:
    return f"{_ms(seconds, found.uncertainty * found.step_s / abs(seconds) if seconds else 0.0)}, " + percent(
        seconds / found.step_s
    )


def _ms(seconds: float, relative: float) -> str:
    """Return seconds as milliseconds, in as many digits as the relative half-width supports."""
    value = 1e3 * seconds
    return f"{significant(value, 2) if relative == 0 else rounded(value, abs(value) * relative)} ms"
