"""An answer beside the baseline: throughput, step time, peak memory, and what each option gives.

The one place for the figures that the terminal, the page and notebooks show.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from autotune.config import Config
from autotune.records import Measurement
from autotune.report.evidence import Answer, Evidence
from autotune.report.outcome import samples_per_s, step_ms
from autotune.report.parts import time_parts
from autotune.report.rows import differs_from, limit_bytes
from autotune.search.verification import Claim, Verdict, within_noise
from autotune.search.verification.wording import contribution
from autotune.words.figures import memory, percent, rounded, significant
from autotune.words.text import value_text, values_text


@dataclass(frozen=True, kw_only=True)
class Pair:
    """One figure before and after, in words. `before` is empty where it was not measured."""

    title: str
    before: str
    after: str
    note: str = ""


def compared(evidence: Evidence, answer: Answer) -> Iterator[Pair]:
    """Yield throughput, step time and memory: of the verification where it measured this config, else the search's."""
    yield from _times(evidence, answer)
    before, after = _peaks(evidence, answer)
    if after is not None:
        where = "peak device memory" if evidence.run.accelerator else "peak host memory"
        yield Pair(
            title=where,
            before="" if before is None else memory(before),
            after=memory(after),
            note=_room(evidence, after),
        )


def memory_told(evidence: Evidence, answer: Answer) -> str:
    """Return what a search for little memory has found, in words; empty for other objectives, and for the baseline."""
    before, after = _peaks(evidence, answer)
    same = not answer.config.difference(evidence.run.baseline)
    if evidence.run.info.objective != "memory" or same or before is None or after is None:
        return ""
    return f"Peak memory {memory(after)} in the place of {memory(before)}"


def alternatives(evidence: Evidence, answer: Answer) -> str:
    """Return which finalists the choice did not tell from the answer, smallest memory first; empty: none."""
    choice = evidence.verification.choice if evidence.verification else None
    if choice is None or answer.claim is None or not choice.ranking:
        return ""
    if not answer.config.difference(evidence.run.baseline):
        return ""  # the baseline stays: the choice was among its rivals
    chosen = Config(**answer.claim.candidate)
    if Config(**choice.ranking[0].config).difference(chosen):
        return ""
    told = []
    for other in within_noise(choice):
        peak = _peak(evidence, Config(**other.config))
        differs = values_text(differs_from(Config(**other.config), chosen))
        told.append(differs + ("" if peak is None else f" ({memory(peak)})"))
    return f"Not told from it in the choice, smallest memory first: {'; '.join(told)}." if told else ""


def _times(evidence: Evidence, answer: Answer) -> Iterator[Pair]:
    paired = answer.paired
    if paired is not None and paired.comparison is not None and paired.figures is not None:
        found, half = paired.figures, paired.comparison.noise
        settled = not isinstance(paired, Claim) or paired.verdict is not Verdict.INCONCLUSIVE
        count = f"mean of {paired.comparison.pairs} fresh processes each{'' if settled else ', nothing is proven'}"
        times = (found.baseline_sample_s, found.candidate_sample_s)
        rates = [rounded(1 / sample_s, half / sample_s) for sample_s in times]
        yield Pair(title="samples/s", before=rates[0], after=rates[1], note=count)
        steps = [
            rounded(1e3 * step_s, half * 1e3 * step_s) for step_s in (found.baseline_step_s, found.candidate_step_s)
        ]
        yield Pair(title="ms a step", before=steps[0], after=steps[1], note=_batches(evidence, answer))
        return
    before, after = evidence.baseline_row, evidence.row(answer)
    if after is not None:
        origin = "from the search alone, not verified" if answer.claim is None else "from the search's trials"
        yield Pair(
            title="samples/s", before=samples_per_s(before) if before else "", after=samples_per_s(after), note=origin
        )
        yield Pair(
            title="ms a step",
            before=step_ms(before) if before else "",
            after=step_ms(after),
            note=_batches(evidence, answer),
        )


def _peaks(evidence: Evidence, answer: Answer) -> tuple[int | None, int | None]:
    """Return the peaks of the baseline and of an answer: of the windows beside each other too, as its file has them."""
    paired = (0, 0) if answer.paired is None else answer.paired.peaks
    before, after = (_peak(evidence, config) or 0 for config in (evidence.run.baseline, answer.config))
    return max(before, paired[0]) or None, max(after, paired[1]) or None


def _peak(evidence: Evidence, config: Config) -> int | None:
    """Return the peak that decides whether a config fits: of the search's runs, else of the verification's."""
    found = evidence.measurements(config) or _windows(evidence, config)
    return max((item.lifetime.needed(evidence.run.accelerator) for item in found), default=None)


def _windows(evidence: Evidence, config: Config) -> list[Measurement]:
    records = evidence.records(config, verification=True)
    return [record.measurement for record in records if record.measurement is not None]


def _room(evidence: Evidence, peak: int) -> str:
    limit = limit_bytes(evidence.run.info.limits, evidence.run.accelerator)
    if limit is None:
        return ""
    return (
        f"{percent(peak / limit)} of the {memory(limit)} allowed"
        if peak <= limit
        else f"over the {memory(limit)} allowed"
    )


def _batches(evidence: Evidence, answer: Answer) -> str:
    before, after = evidence.run.baseline.value("batch_size"), answer.config.value("batch_size")
    same = f"at batch {value_text(after)}"
    return same if before == after else f"at batch {value_text(before)}, then {value_text(after)}"


def parts_now(evidence: Evidence, answer: Answer) -> dict[str, float] | None:
    """Return seconds a sample by part under an answer; None where nothing of it was measured."""
    found = evidence.measurements(answer.config) or _windows(evidence, answer.config)
    return time_parts(found, answer.config)


def gives(evidence: Evidence, answer: Answer, option: str) -> tuple[str, bool]:
    """Return what an option of the answer gives, in words, and whether that was measured; else it is a belief, or "".

    A belief is what the search's models say, and no claim.
    """
    found = answer.contribution(option)
    if found is not None:
        return contribution(found).partition(": ")[2], True
    belief = evidence.belief(answer, option)
    return (f"believed {significant(belief.ratio, 2)}x, not measured alone" if belief else ""), False
