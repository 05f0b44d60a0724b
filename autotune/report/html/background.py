"""The end of the page: what the models believe, the machine, the search, flags in words, and what was not measured."""

from __future__ import annotations

import shlex
from collections import Counter

from autotune.records import REPEAT
from autotune.report.columns import OUTCOMES
from autotune.report.evidence import Evidence
from autotune.report.explain import effect_words
from autotune.report.flags import explain, in_order
from autotune.report.html.markup import Html, join, table, tag
from autotune.report.run import began
from autotune.report.table import NOT_MEASURED, THROUGHPUT_ONLY
from autotune.words.figures import duration, memory
from autotune.words.text import value_text, values_text


def background(evidence: Evidence) -> Html:
    return join(_beliefs(evidence), _not_measured(evidence), _flags(evidence), _search(evidence), _machine(evidence))


def _beliefs(evidence: Evidence) -> Html:
    found = evidence.explanation
    if found is None or not found.effects:
        return Html("")
    rows = [[item.option, value_text(item.value), effect_words(item)] for item in found.effects]
    head = ["option", "value", "time per sample against the best config"]
    told = "A model's figures from the trials so far, not measurements: what each value would do in the best config."
    shown = tag("div", table(head, rows, class_="plain"), class_="scroll")
    return tag(
        "section",
        tag("h2", "What the search believes"),
        tag("p", told),
        tag("details", tag("summary", f"{len(rows)} values"), shown),
    )


def _not_measured(evidence: Evidence) -> Html:
    told = [THROUGHPUT_ONLY, NOT_MEASURED]
    if evidence.verification is None:
        told.append("No verification was made: every figure here is from the search's single runs.")
    else:
        dropped = Counter(item.reason for item in evidence.verification.dropped)
        told += [f"{count} of the finalists could not be verified: {reason}." for reason, count in dropped.items()]
    failed = Counter(OUTCOMES[row.outcome] for row in evidence.single if not row.measured)
    if failed:
        told.append(f"Trials without figures: {', '.join(f'{count} {outcome}' for outcome, count in failed.items())}.")
    missing = evidence.run.info.trials - _made(evidence)
    if missing > 0:
        told.append(f"{missing} of the {evidence.run.info.trials} trials asked for were not made.")
    reasons = evidence.run.info.reasons
    apart = [join(tag("code", name), f": {reason}") for name, reason in reasons.items()]
    options = join(tag("p", "Options that do not apply here:"), _list(apart)) if apart else ""
    return tag("section", tag("h2", "What was not measured"), _list(told), options)


def _made(evidence: Evidence) -> int:
    """Return how many of the trials asked for were made: a repeat of a disturbed one is none of them."""
    return sum(row.kind != REPEAT for row in evidence.single)


def _flags(evidence: Evidence) -> Html:
    windows = [record for record in evidence.run.records if record.kind != "probe" and record.measurement is not None]
    counts = Counter(flag for record in windows for flag in (record.measurement.flags if record.measurement else ()))
    if not counts:
        return tag("section", tag("h2", "Flags"), tag("p", "No sign of disturbance was seen in any run."))
    rows = [[flag, f"{counts[flag]} of {len(windows)} runs", explain(flag)] for flag in in_order(counts)]
    return tag("section", tag("h2", "Flags"), table(["flag", "seen in", "what it means"], rows, class_="plain"))


def _search(evidence: Evidence) -> Html:
    info, facts = evidence.run.info, evidence.run.info.facts
    spent = sum(record.wall_s for record in evidence.run.records)
    limits = [f"host {memory(info.limits.host_bytes)}"]
    if info.limits.device_bytes is not None:
        limits.insert(0, f"device {memory(info.limits.device_bytes)}")
    searched = {name: " ".join(map(value_text, values)) for name, values in info.choices.items()}
    rows = [
        ["script", " ".join([info.source.script or "a workload given from Python", *info.source.arguments])],
        ["SHA-256", info.script_hash],
        ["command", shlex.join(info.command)],
        ["model", f"{facts.get('model', '')}, {facts.get('parameters', 0):,} parameters" if facts.get("model") else ""],
        ["dataset", f"{facts['dataset_length']:,} samples" if facts.get("dataset_length") else ""],
        ["batch", str(facts.get("batch_structure", ""))],
        ["baseline", values_text(evidence.run.baseline)],
        ["sampler", f"{info.sampler}, objective {info.objective}, seed {info.seed}"],
        ["trials", f"{_made(evidence)} of {info.trials} asked for, {duration(spent)} in trials and windows"],
        ["memory allowed", ", ".join(limits)],
        *([name, values] for name, values in searched.items()),
    ]
    return tag("section", tag("h2", "The search"), _facts(rows))


def _machine(evidence: Evidence) -> Html:
    info = evidence.run.info
    machine, versions = info.machine, info.machine.get("versions") or {}
    device = str(info.facts.get("device_name", ""))
    gpus = [f"{gpu.get('name', '?')}, driver {gpu.get('driver', '?')}" for gpu in machine.get("gpus") or ()]
    total = machine.get("memory_bytes")
    rows = [
        ["device", device],
        ["processor", str(machine.get("cpu", ""))],
        ["usable cores", f"{machine['usable_cores']:g}" if "usable_cores" in machine else ""],
        ["memory", memory(total) if isinstance(total, int) and total else ""],
        ["accelerators", "; ".join(gpus)],
        ["Python", str(machine.get("python", ""))],
        *([name, str(version)] for name, version in versions.items()),
        ["begun", f"{began(info)} UTC"],
    ]
    return tag("section", tag("h2", "Machine and versions"), _facts(rows))


def _facts(rows: list[list[str]]) -> Html:
    return table([], [row for row in rows if row[1]], class_="facts")


def _list(items: list[Html] | list[str]) -> Html:
    return tag("ul", *(tag("li", item) for item in items))
