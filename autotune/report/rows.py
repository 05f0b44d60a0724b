"""From records to typed rows: one a config, ranked by measured time per sample among those that fit."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from autotune.config import Config
from autotune.drift import Drift, drifts
from autotune.options import OPTIONS, Value
from autotune.records import NOT_SCREENING, Limits, Measurement, Outcome, TrialRecord, is_input_bound
from autotune.repeats import standing, undisturbed
from autotune.report.flags import in_order
from autotune.report.run import Run

OVER_LIMIT = "over the memory limit"


@dataclass(frozen=True, kw_only=True)
class Row:
    """One config as the search measured it, or one run of it. Figures are None where nothing was measured."""

    trial: int
    """number of its first run"""
    trials: tuple[int, ...]
    """numbers of all its runs"""
    kind: str
    config: Config
    differs: Mapping[str, Value]
    """what differs from the baseline; empty: the baseline itself"""
    outcome: Outcome
    reason: str = ""
    """why there is no rank, in a few words"""
    rank: int | None = None
    """1 is the least time per sample among those that fit"""
    sample_s: float | None = None
    """seconds per sample; of several runs the mean of the logarithms"""
    uncertainty: float | None = None
    """relative half-width within the run; of several runs at least half their range"""
    tokens_per_s: float | None = None
    step_s: float | None = None
    samples_per_step: float | None = None
    data_share: float | None = None
    """share of a step that is spent on waiting for data"""
    input_bound: bool = False
    peak_bytes: int | None = None
    """the peak that decides whether it fits, over the whole life of the trial"""
    limit_bytes: int | None = None
    fits: bool | None = None
    flags: tuple[str, ...] = ()
    wall_s: float = 0.0
    """all its runs together, as the steering process saw them"""
    compile_s: float | None = None
    """the longest of its runs: the others may have found what it compiled; None: nothing was compiled"""
    recompilations: int | None = None
    """after the first step, the most of its runs"""

    @property
    def runs(self) -> int:
        return len(self.trials)

    @property
    def measured(self) -> bool:
        return self.sample_s is not None

    @property
    def samples_per_s(self) -> float | None:
        return None if self.sample_s is None else 1.0 / self.sample_s

    @property
    def label(self) -> str:
        return "" if self.differs else "baseline"


def rows_of(
    records: Iterable[TrialRecord],
    *,
    baseline: Config,
    accelerator: bool,
    limits: Limits | None = None,
    merge: bool = True,
) -> list[Row]:
    """Return the rows of a search: measured and fitting ones by time per sample, then measured ones, then the rest.

    Args:
        records: of all trials; the probe's and those of a verification are left out.
        accelerator: whether the accelerator's memory decides what fits.
        limits: what a trial may use; None: as each record says.
        merge: one row a config; False: one row a run, with the rank of its config.
    """
    records = list(records)
    drifted = drifts(records)
    groups: dict[Config, list[TrialRecord]] = {}
    for record in records:
        if record.kind not in NOT_SCREENING:
            groups.setdefault(Config(**record.config), []).append(record)
    merged = [row for seen in groups.values() for row in _rows_of_config(seen, baseline, accelerator, limits)]
    ranks = _ranks(merged)
    if merge:
        rows = [replace(row, rank=ranks.get(row.config) if row.measured else None) for row in merged]
    else:
        single = [_row([record], baseline, accelerator, limits) for seen in groups.values() for record in seen]
        rows = [replace(row, rank=ranks.get(row.config) if row.measured else None) for row in single]
    return sorted((_flagged(row, drifted) for row in rows), key=_default_order)


def rows_of_run(run: Run, *, merge: bool = True) -> list[Row]:
    """Return the rows of a run folder's search."""
    return rows_of(run.records, baseline=run.baseline, accelerator=run.accelerator, limits=run.info.limits, merge=merge)


def differs_from(config: Config, baseline: Config) -> dict[str, Value]:
    """Return what differs from the baseline, less what has no effect in `config` (it is not set there)."""
    return {
        name: value
        for name, value in config.difference(baseline).items()
        if name in config or OPTIONS[name].needs is None
    }


def full_config(config: Config) -> dict[str, Value | None]:
    """Return a value for every option: PyTorch's default where none is set, None where it would have no effect."""
    return {
        name: None if name not in config and option.needs is not None else config.value(name)
        for name, option in OPTIONS.items()
    }


def screening_noise(rows: Sequence[Row]) -> float | None:
    """Return the relative difference below which two rows say nothing about which is better; None: unknown.

    The larger of what two typical half-widths within a run come to, and the typical one of rows with several runs,
    which hold the difference between processes as well.
    """
    found = sorted(row.uncertainty for row in rows if row.uncertainty is not None and math.isfinite(row.uncertainty))
    repeated = [row.uncertainty for row in rows if row.runs > 1 and row.uncertainty is not None]
    if not found:
        return None
    return math.sqrt(2) * max(found[len(found) // 2], *repeated, 0.0)


def _rows_of_config(
    seen: Sequence[TrialRecord], baseline: Config, accelerator: bool, limits: Limits | None
) -> list[Row]:
    """Return the row of the measured runs of one config that count, or else that of its failures."""
    counting = standing(seen)
    measured = [record for record in counting if _found(record) is not None]
    failed = [record for record in counting if _found(record) is None]
    if not measured:
        return [_row(failed, baseline, accelerator, limits)]
    row = _row(measured, baseline, accelerator, limits)
    if not failed:
        return [row]
    trouble = _row(failed, baseline, accelerator, limits)
    fits = False if trouble.fits is False else row.fits
    # a config that failed once is not one to recommend
    return [replace(row, fits=fits, reason=f"trial {trouble.trial} failed: {trouble.reason}"), trouble]


def _flagged(row: Row, drifted: Sequence[Drift]) -> Row:
    """Say of a row that it was measured while the machine changed."""
    covered = row.measured and any(drift.covers(number) for drift in drifted for number in row.trials)
    return replace(row, flags=tuple(in_order((*row.flags, "drift")))) if covered else row


def _row(records: Sequence[TrialRecord], baseline: Config, accelerator: bool, limits: Limits | None) -> Row:
    """Return the row of runs of one config that are all measured, or all not."""
    first = records[0]
    config = Config(**first.config)
    allowed = limits or first.limits
    row = Row(
        trial=first.number,
        trials=tuple(record.number for record in records),
        kind=first.kind,
        config=config,
        differs=differs_from(config, baseline),
        outcome=Outcome.OK if any(record.outcome is Outcome.OK for record in records) else first.outcome,
        limit_bytes=limit_bytes(allowed, accelerator),
        wall_s=sum(record.wall_s for record in records),
    )
    found = [measurement for measurement in map(_found, records) if measurement is not None]
    if not found:
        reason = first.failure.reason if first.failure else ""
        return replace(row, reason=reason, fits=False if row.outcome is Outcome.OUT_OF_MEMORY else None)
    return _with_figures(row, found, accelerator)


def _with_figures(row: Row, found: Sequence[Measurement], accelerator: bool) -> Row:
    counted = undisturbed(found)
    logs = [math.log(item.sample_s) for item in counted]
    sample_s = math.exp(sum(logs) / len(logs))
    half_range = (max(logs) - min(logs)) / 2
    tokens = found[0].tokens_per_sample
    shares = [data_share(item) for item in found]
    peak = max(item.lifetime.needed(accelerator) for item in found)
    fits = None if row.limit_bytes is None else peak <= row.limit_bytes
    compiled = [item.compilation for item in found if item.compilation is not None]
    return replace(
        row,
        compile_s=max((item.seconds for item in compiled), default=None),
        recompilations=max((item.recompilations for item in compiled), default=None),
        sample_s=sample_s,
        uncertainty=max(half_range, sum(item.uncertainty for item in counted) / len(counted)),
        tokens_per_s=None if tokens is None else tokens / sample_s,
        step_s=math.exp(sum(math.log(item.step_s) for item in counted) / len(counted)),
        samples_per_step=found[0].samples_per_step,
        data_share=sum(share for share, _ in shares) / len(shares),
        input_bound=all(bound for _, bound in shares),
        peak_bytes=peak,
        fits=fits,
        reason=OVER_LIMIT if fits is False else "",
        flags=tuple(in_order(flag for item in counted for flag in item.flags)),
    )


def data_share(found: Measurement) -> tuple[float, bool]:
    """Return the share of a step that waits for data, and whether that makes it input-bound.

    Input-bound: the step takes over a tenth longer than on batches that are there already, beyond the uncertainty.
    The wait inside `next` alone would miss what an accelerator's queue hides, so that difference is the share then.
    """
    waiting = found.wait_s / found.step_s
    if found.compute_s is None:
        return waiting, False
    lost = (found.step_s - found.compute_s) / found.step_s
    return (lost, True) if is_input_bound(lost, found.uncertainty) else (waiting, False)


def _found(record: TrialRecord) -> Measurement | None:
    return record.measurement if record.outcome.measured else None


def limit_bytes(limits: Limits | None, accelerator: bool) -> int | None:
    """Return the limit on the memory that decides what fits; None: there is none."""
    if limits is None:
        return None
    return limits.device_bytes if accelerator else limits.host_bytes


def _ranks(rows: Sequence[Row]) -> dict[Config, int]:
    """Return the rank of each config that was measured and fits."""
    sound = [row for row in rows if row.measured and row.fits is not False and not row.reason]
    order = sorted(sound, key=lambda row: (row.sample_s or math.inf, row.trial))
    return {row.config: place for place, row in enumerate(order, start=1)}


def _default_order(row: Row) -> tuple[float, float, int]:
    return (row.rank or math.inf, row.sample_s or math.inf, row.trial)
