"""The end of a search, on one screen: what to use, how sure that is, what it costs in memory, and what to type next."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from rich import box
from rich.console import Console
from rich.table import Table

from autotune.records import HARD_FLAGS, REPEAT
from autotune.report.compared import alternatives, compared, gives, memory_told, parts_now
from autotune.report.evidence import Answer, Evidence
from autotune.report.flags import explain
from autotune.report.front import pareto_front
from autotune.report.outcome import changes, nothing_measured
from autotune.report.parts import parts_text
from autotune.report.rows import differs_from
from autotune.report.table import THROUGHPUT_ONLY, fitting_columns, results_table, screening_line
from autotune.search.setup import Wishes
from autotune.search.verification import Verdict
from autotune.words.text import plain, values_text

STYLES = {Verdict.FASTER: "bold green", Verdict.INCONCLUSIVE: "bold yellow"}
"""of the verdict's line; the others are bold"""
TAKEN_BACK = "options that gave nothing were taken back after that, and the rest measured again"


def print_summary(console: Console, evidence: Evidence, *, interrupted: bool = False) -> None:
    """Print the outcome of a search.

    Args:
        interrupted: Ctrl-C ended it before its time.
    """
    run = evidence.run
    if interrupted:
        done = sum(record.kind != REPEAT for record in run.screening)
        told = f"Interrupted after {done} of {run.info.trials} trials; what follows is from these."
        console.print(plain(told, "yellow"))
    if not evidence.answers:
        console.print(plain(nothing_measured(evidence.rows), "bold"))
        _print_commands(console, evidence, interrupted)
        return
    best = evidence.answers[0]
    style = STYLES.get(best.claim.verdict, "bold") if best.claim else "bold"
    console.print(plain(_verdict(evidence, best), style))
    if best.claim is not None and not best.is_claimed and changes(best.config, run.baseline):
        console.print(plain(f"{TAKEN_BACK.capitalize()}."))
    if checked := evidence.numerics(best):
        console.print(plain(checked))
    console.print()
    if changes(best.config, run.baseline):
        console.print(_options_table(evidence, best))
        console.print()
    else:
        console.print(plain(f"Nothing to change: {evidence.why_unchanged}."))
    figures = list(compared(evidence, best))
    if figures:
        console.print(_figures_table(evidence, best))
        console.print()
    for line in _remarks(evidence, best):
        console.print(plain(line, "dim"))
    for other in evidence.answers[1:]:
        differs = values_text(differs_from(other.config, run.baseline)) or "the baseline itself"
        told = other.sentence
        if other.claim is not None and not other.is_claimed and changes(other.config, run.baseline):
            told += f"; {TAKEN_BACK}"
        console.print()
        console.print(plain(f"Best with the baseline's samples per optimizer step: {differs}", "bold"))
        console.print(plain(f"{told or 'not verified'}: {other.path}"), soft_wrap=True)
    if run.info.objective == "pareto":
        _print_front(console, evidence)
    _print_commands(console, evidence, interrupted)


def _print_front(console: Console, evidence: Evidence) -> None:
    """Print the configs to choose from, where time and memory count alike."""
    front = pareto_front(evidence.rows)
    console.print()
    console.print(plain("To choose from: nothing that was measured is as fast in as little memory", "bold"))
    console.print(results_table(front, fitting_columns(front, console.width, flag_letters={}), flag_letters={}))


def _verdict(evidence: Evidence, answer: Answer) -> str:
    if answer.claim is not None:
        return "; ".join(filter(None, (memory_told(evidence, answer), answer.sentence)))
    if not changes(answer.config, evidence.run.baseline):
        return "Keep what you run today; nothing was verified."
    return f"Not verified: run `{evidence.verify_line(answer)}`"


def _options_table(evidence: Evidence, answer: Answer) -> Table:
    """Return what the best config changes, and what each change gave by itself."""
    changed = changes(answer.config, evidence.run.baseline)
    found = {change: gives(evidence, answer, change.option) for change in changed}
    told = {change: gain if measured else "" for change, (gain, measured) in found.items()}
    titles = ["option", "before", "after", *(["what it alone gave"] if any(told.values()) else [])]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for title in titles:
        table.add_column(title, overflow="fold")
    for change, gain in told.items():
        cells = [plain(change.option), plain(change.before), plain(change.after, "bold"), plain(gain or "not measured")]
        table.add_row(*cells[: len(titles)])
    return table


def _figures_table(evidence: Evidence, answer: Answer) -> Table:
    """Return throughput, step time and memory, before and after."""
    changed = bool(changes(answer.config, evidence.run.baseline))
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column("")
    for title in ("before", "after") if changed else ("today",):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("", overflow="fold", style="dim")
    for pair in compared(evidence, answer):
        values = [plain(pair.before), plain(pair.after, "bold")] if changed else [plain(pair.after)]
        table.add_row(plain(pair.title), *values, plain(pair.note))
    return table


def _remarks(evidence: Evidence, answer: Answer) -> list[str]:
    """Return the few lines below the figures: where the time goes, and what the config means for the training."""
    lines = []
    row, before = evidence.row(answer), evidence.baseline_row
    if answer.claim is None and row is not None:
        lines.append(f"{screening_line([item for item in (before, row) if item], evidence.noise)}.")
        lines += [f"Mind: {explain(flag)}." for flag in row.flags if flag in HARD_FLAGS]
    if told := alternatives(evidence, answer):
        lines.append(told)
    parts = parts_now(evidence, answer)
    if parts is not None:
        lines.append(f"The time now goes to {parts_text(parts)}.")
    if (planned := evidence.run.info.planned_samples) is not None:
        lines.append(f"Times include the start, spread over the {planned:,} samples planned.")
    lines += [_first_sentence(note) for note in answer.notes]
    if answer.notes:
        lines.append(f"{THROUGHPUT_ONLY} {answer.path.name} says more.")
    return lines


def _first_sentence(note: str) -> str:
    return re.split(r"(?<=\.)\s+(?=[A-Z])", note, maxsplit=1)[0]


def _print_commands(console: Console, evidence: Evidence, interrupted: bool) -> None:
    """Print what to do next; soft-wrapped, so that a command can be copied whole."""
    folder = _folder(evidence)
    lines = []
    if evidence.answers:
        lines.append(("apply", evidence.apply_line(evidence.answers[0])))
    if again := _again(evidence, interrupted):
        lines.append(("go on", again))
    front = " --pareto" if evidence.run.info.objective == "pareto" else ""
    lines.append(("see more", f"autotune results {folder}{front}"))
    console.print()
    for what, line in lines:
        console.print(plain(f"{what:<8} {line}"), soft_wrap=True)


def _again(evidence: Evidence, interrupted: bool) -> str:
    """Return the command line that goes on with a search; empty where it would find nothing left to do."""
    info = evidence.run.info
    if not info.command or not (interrupted or evidence.only_baseline):
        return ""
    words = ["autotune", *info.command[1:]]
    end = words.index("--") if "--" in words else len(words)
    head = [word for word in words[:end] if word not in ("--force", "--resume")]
    done = sum(record.kind != REPEAT for record in evidence.run.screening)
    if not interrupted and (done >= info.trials or info.timeout_s is None):
        more = Wishes().trials
        if done < info.trials or done >= more or all(len(values) < 2 for values in info.choices.values()):
            return ""  # nothing else is there to try
        head = [*_without_trials(head), "--trials", str(more)]
    return shlex.join([*head, "--resume", *words[end:]])


def _without_trials(words: list[str]) -> Iterator[str]:
    """Yield the words of a command line without the number of trials."""
    rest = iter(words)
    for word in rest:
        if word == "--trials":
            next(rest, None)
        elif not word.startswith("--trials="):
            yield word


def _folder(evidence: Evidence) -> str:
    return shlex.quote(str(evidence.run.folder.path))
