"""The table of the peers, from their JSON files."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from autotune.documents import from_plain
from autotune.machine import Machine

OURS = "autotune"


def write(out: Path) -> None:
    """Write peers.csv and peers.md."""
    lines = [json.loads(path.read_text()) for path in sorted(out.glob("*-*.json"))]
    if not lines:
        return
    ours = {line["example"]: line for line in lines if line["peer"] == OURS}
    rows = [_row(line, ours.get(line["example"], {})) for line in lines]
    with (out / "peers.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, list(rows[0]))
        table.writeheader()
        table.writerows(rows)
    sections = [
        _section(example, [line for line in lines if line["example"] == example], ours.get(example, {}))
        for example in sorted({line["example"] for line in lines})
    ]
    (out / "peers.md").write_text(
        "# The tool and its peers at equal wall time\n\n"
        "Each had the same wall time to tune. Then each final config was verified against the baseline, and the\n"
        "tool's against each peer's, in interleaved windows of fresh processes. Made by `run.py`.\n\n"
        + "\n".join(sections)
    )


def _row(line: dict[str, Any], ours: dict[str, Any]) -> dict[str, Any]:
    final = line.get("final") or {}
    missing = "not verified" if final else ""
    return {
        "example": line["example"],
        "peer": line["peer"],
        "config": json.dumps(line.get("changes", {})),
        "compile_mode": final.get("compile_mode", ""),
        "wall_s": f"{line['wall_s']:.1f}" if "wall_s" in line else "",
        "over_baseline": _ratio(line.get("over_baseline"), missing),
        "ours_over_it": _ratio(line.get("ours_over_it"), "" if line is ours else missing),
        "verdict": (line.get("over_baseline") or {}).get("verdict", ""),
        "own_claim": final.get("own_claim", ""),
        "note": _note(line, ours),
    }


def _section(example: str, lines: list[dict[str, Any]], ours: dict[str, Any]) -> str:
    machine = from_plain(Machine, lines[0]["machine"])
    rows = []
    for line in lines:
        row = _row(line, ours)
        changes = ", ".join(f"{name}={value}" for name, value in line.get("changes", {}).items())
        if row["compile_mode"]:
            changes = f"{changes}, torch.compile {row['compile_mode']}".lstrip(", ")
        shown = changes or ("the baseline" if "final" in line else "-")
        cells = [line["peer"], shown, row["wall_s"], row["over_baseline"], row["ours_over_it"], row["own_claim"]]
        rows.append(f"| {' | '.join([*cells, row['note']])} |")
    baseline = ", ".join(f"{name}={value}" for name, value in lines[0]["baseline"].items())
    return f"""## {example}

Baseline: {baseline}. Wall time for each: {lines[0]["budget_s"]:.0f} s. Ratios above 1 are faster, 95 % intervals.

| | final config, against the baseline | wall s | over the baseline | autotune over it | own claim | notes |
|---|---|---|---|---|---|---|
{chr(10).join(rows)}

{machine.cpu}, {machine.usable_cores:g} usable cores; Python {machine.python}, \
{", ".join(f"{name} {version}" for name, version in machine.versions.items())}; \
load average before tuning at most {max(line["load"] for line in lines):.1f}.
"""


def _ratio(found: dict[str, Any] | None, missing: str) -> str:
    if found is None:
        return missing
    if found["ratio"] is None:
        return found["sentence"]
    if found["verdict"] == "identical":
        return "1 (identical)"
    middle, low, high = found["ratio"]
    disturbed = "" if found["verdict"] != "inconclusive" else f"; {found['sentence']}"
    return f"{middle:.3f} [{low:.3f}, {high:.3f}]{disturbed}"


def _note(line: dict[str, Any], ours: dict[str, Any]) -> str:
    final = line.get("final") or {}
    parts = [line.get("error", ""), _why_equal(line, ours), *_elsewhere(line)]
    if final.get("not_expressed"):
        parts.append(f"not expressed: {final['not_expressed']}")
    if line.get("stopped"):
        parts.append("ended at its time; the last answer it had")
    return "; ".join(filter(None, parts)).replace("|", "/")


def _elsewhere(line: dict[str, Any]) -> Iterator[str]:
    """Yield which ratios are of another machine than the answer."""
    for name, shown in (("over_baseline", "over the baseline"), ("ours_over_it", "autotune over it")):
        cpu = (line.get(name) or {}).get("cpu", line["machine"]["cpu"])
        if cpu != line["machine"]["cpu"]:
            yield f"{shown}: verified on another machine, {cpu}"


def _why_equal(line: dict[str, Any], ours: dict[str, Any]) -> str:
    """Return in what two answers differ that no verification could tell apart."""
    ratio = (line.get("ours_over_it") or {}).get("ratio")
    if ratio is None or not ratio[1] <= 1 <= ratio[2]:
        return ""
    its, own = (side["changes"] | {"torch.compile": side["final"]["compile_mode"]} for side in (line, ours))
    names = [name for name in its | own if its.get(name) != own.get(name)]
    return f"not told apart from the tool's, from which it differs in {', '.join(names) or 'nothing'}"
