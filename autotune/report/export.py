"""The rows of a search as CSV and JSON: stable names with units in them, figures unrounded.

Format history
1  first
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from typing import Any

from autotune.options import OPTIONS
from autotune.report.rows import Row, full_config, rows_of_run, screening_noise
from autotune.report.run import Run
from autotune.report.strict_json import finite, strict_json
from autotune.report.table import THROUGHPUT_ONLY, screening_line

FORMAT = 1

FIGURES: dict[str, Callable[[Row], Any]] = {
    "trial": lambda row: row.trial,
    "trials": lambda row: list(row.trials),
    "kind": lambda row: row.kind,
    "rank": lambda row: row.rank,
    "runs": lambda row: row.runs,
    "outcome": lambda row: row.outcome.value,
    "reason": lambda row: row.reason,
    "samples_per_s": lambda row: row.samples_per_s,
    "sample_s": lambda row: row.sample_s,
    "within_run_half_width": lambda row: row.uncertainty,
    "tokens_per_s": lambda row: row.tokens_per_s,
    "step_ms": lambda row: None if row.step_s is None else 1e3 * row.step_s,
    "samples_per_step": lambda row: row.samples_per_step,
    "data_wait_share": lambda row: row.data_share,
    "input_bound": lambda row: row.input_bound if row.measured else None,
    "peak_bytes": lambda row: row.peak_bytes,
    "limit_bytes": lambda row: row.limit_bytes,
    "fits": lambda row: row.fits,
    "flags": lambda row: list(row.flags),
    "wall_s": lambda row: row.wall_s,
    "compile_s": lambda row: row.compile_s,
    "recompilations": lambda row: row.recompilations,
}
"""columns of both exports by name, beside the options"""


def rows_to_csv(run: Run, *, every: bool = False, rows: Sequence[Row] | None = None) -> str:
    """Return the rows as CSV: a column a figure, and `option.<name>` for each option.

    An option that has no effect in a config is empty there. `every`: each run in a row of its own, failed ones too;
    `rows`: these, and no others.
    """
    rows = rows_of_run(run, merge=not every) if rows is None else rows
    names = [*FIGURES, *(f"option.{name}" for name in OPTIONS)]
    text = io.StringIO()
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    for record in flat_records(rows):
        writer.writerow({name: _cell(value) for name, value in record.items()})
    return text.getvalue()


def flat_records(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return a flat dict a row, under the names of the CSV: `pandas.DataFrame(flat_records(rows))` is a table."""
    return [
        {**_figures(row), **{f"option.{name}": value for name, value in full_config(row.config).items()}}
        for row in rows
    ]


def rows_to_json(run: Run, *, every: bool = False, rows: Sequence[Row] | None = None) -> str:
    """Return the rows as JSON, with what the figures are and where they were measured; arguments as for CSV."""
    rows = rows_of_run(run, merge=not every) if rows is None else rows
    noise = screening_noise(rows_of_run(run))
    document = {
        "format": FORMAT,
        "note": f"{screening_line(rows, noise)}. {THROUGHPUT_ONLY}",
        "screening_noise": noise,
        "script": run.info.source.script,
        "device": run.info.facts.get("device"),
        "device_name": run.info.facts.get("device_name"),
        "machine": dict(run.info.machine),
        "started_at_s": run.info.started_at,
        "baseline": full_config(run.baseline),
        "rows": [{**_figures(row), "config": full_config(row.config), "differs": dict(row.differs)} for row in rows],
    }
    return strict_json(document, indent=2) + "\n"


def _figures(row: Row) -> dict[str, Any]:
    return {name: finite(figure(row)) for name, figure in FIGURES.items()}


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)
